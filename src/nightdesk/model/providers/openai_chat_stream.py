"""A whole chat completion, told as the chunks of a streamed one."""

from collections.abc import Iterator

from nightdesk.canonical import Json
from nightdesk.model.providers.wire import event, objects

# Told in chunks of their own; whatever else a message has is told with its role, at the beginning.
_IN_PIECES = ("content", "refusal", "tool_calls")


def chat_stream(completion: dict[str, Json], with_usage: bool) -> bytes:
    shell = {key: value for key, value in completion.items() if key not in ("choices", "usage")}
    shell["object"] = "chat.completion.chunk"
    if with_usage:
        shell["usage"] = None
    events = [
        event({**shell, "choices": [part]}) for choice in objects(completion.get("choices")) for part in _parts(choice)
    ]
    if with_usage:
        events.append(event({**shell, "choices": [], "usage": completion.get("usage")}))
    return "".join([*events, "data: [DONE]\n\n"]).encode()


def _parts(choice: dict[str, Json]) -> Iterator[dict[str, Json]]:
    index = choice.get("index", 0)
    last = len(deltas := list(_deltas(choice.get("message") or {}))) - 1
    for position, delta in enumerate(deltas):
        # Log probabilities are gathered from every chunk: all of them are told in the second, with the content.
        logprobs = choice.get("logprobs") if position == min(1, last) else None
        yield {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
    yield {"index": index, "delta": {}, "logprobs": None, "finish_reason": choice.get("finish_reason")}


def _deltas(message: dict[str, Json]) -> Iterator[dict[str, Json]]:
    rest = {key: value for key, value in message.items() if key not in _IN_PIECES}
    content = message.get("content")
    yield {"role": "assistant", **rest, "content": None if content is None else "", "refusal": None}
    if content:
        yield {"content": content}
    if message.get("refusal"):
        yield {"refusal": message["refusal"]}
    for index, call in enumerate(objects(message.get("tool_calls"))):
        yield {"tool_calls": [{**call, "index": index}]}
