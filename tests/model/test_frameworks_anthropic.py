"""The official anthropic package, unchanged: the same answers under the transport as without."""

import asyncio
import json
from typing import Any

from anthropic import Anthropic, AsyncAnthropic, BadRequestError, beta_async_tool
from anthropic.types import Message, MessageParam, ToolParam
from anthropic.types.beta import BetaMessageParam
from pydantic import BaseModel

from nightdesk.work import Desk
from tests.model.asking import AskingHouse, answers_alike

_MODEL = "claude-haiku-4-5"
_WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather in a town.",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}


class Town(BaseModel):
    name: str
    people: int


def _client(desk: Desk) -> AsyncAnthropic:
    return AsyncAnthropic(http_client=desk.http_client())


def _asked(text: str) -> MessageParam:
    return {"role": "user", "content": text}


def _spoken(text: str) -> BetaMessageParam:
    return {"role": "user", "content": text}


def _shown(message: Message) -> Any:
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in message.content]
    usage = (message.usage.input_tokens, message.usage.output_tokens)
    return {"content": blocks, "reason": message.stop_reason, "model": message.model, "usage": usage}


async def _plainly(order: Any, desk: Desk) -> Any:
    """Also with room for so long an answer that the SDK wants a time limit stated, or a stream."""
    asked: Any = {"model": _MODEL, "system": "Be short.", "messages": [_asked("Write about Lund, please")]}
    short = await _client(desk).messages.create(max_tokens=2_000, **asked)
    long = await _client(desk).messages.create(max_tokens=30_000, timeout=3600, **asked)
    return [_shown(short), _shown(long)]


async def _streamed(order: Any, desk: Desk) -> Any:
    client = _client(desk)
    asked: Any = {"model": _MODEL, "max_tokens": 200, "tools": [_WEATHER]}
    async with client.messages.stream(messages=[_asked("The weather in Lund?")], **asked) as stream:
        texts = [text async for text in stream.text_stream]
        helped = await stream.get_final_message()
    kinds = set()
    async for event in await client.messages.create(
        messages=[_asked('Write about Malmö. sim:{"turns":0}')], stream=True, **asked
    ):
        kinds.add(event.type)
    return {"helped": _shown(helped), "texts": texts, "kinds": sorted(kinds)}


async def _with_tools(order: Any, desk: Desk) -> Any:
    """An agent's loop as the documentation of the API has it, with two tools called at once."""
    client = _client(desk)
    messages = [_asked('Compare the weather in Lund and Malmö. sim:{"turns":2,"parallel":2}')]
    said = []
    while True:
        answer = await client.messages.create(model=_MODEL, max_tokens=500, tools=[_WEATHER], messages=messages)
        said.append(_shown(answer))
        if answer.stop_reason != "tool_use":
            return {"said": said}
        messages.append({"role": "assistant", "content": answer.content})
        results: Any = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"sunny in {json.dumps(block.input)}"}
            for block in answer.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})


async def _with_its_own_runner(order: Any, desk: Desk) -> Any:
    @beta_async_tool
    async def weather(town: str) -> str:
        """The weather in a town."""
        return await desk.step("weather", str.upper, town)

    asked: Any = [_asked('The weather in Lund? sim:{"turns":2}')]
    runner = _client(desk).beta.messages.tool_runner(model=_MODEL, max_tokens=500, tools=[weather], messages=asked)
    return {"reasons": [message.stop_reason async for message in runner]}


async def _in_a_thread(order: Any, desk: Desk) -> Any:
    """A conversation that the SDK would leave to the provider to hold, and here sends whole."""
    thread = _client(desk).beta.messages.thread(
        model=_MODEL, max_tokens=200, unsupported_request_behavior="continue_unthreaded"
    )
    said = [await thread.send(_spoken(f"Write about {town}")) for town in ("Lund", "Malmö")]
    return {"said": [message.content[0].to_dict() for message in said], "held": len(thread.messages)}


async def _in_a_thread_at_all_costs(order: Any, desk: Desk) -> Any:
    thread = _client(desk).beta.messages.thread(model=_MODEL, max_tokens=200)
    try:
        await thread.send(_spoken("Write about Lund"))
    except BadRequestError as error:
        return error.message


async def _structured(order: Any, desk: Desk) -> Any:
    message = await _client(desk).messages.parse(
        model=_MODEL, max_tokens=300, messages=[_asked("name: Lund, people: 94000")], output_format=Town
    )
    assert message.parsed_output
    return message.parsed_output.model_dump()


async def _from_threads(order: Any, desk: Desk) -> Any:
    """A sync client, in a step and in a thread of the playbook's own."""
    client = Anthropic(http_client=desk.http_client(sync=True))

    def ask(town: str) -> Any:
        message = client.messages.create(model=_MODEL, max_tokens=100, messages=[_asked(f"Write about {town}")])
        return _shown(message)

    def stream(town: str) -> str:
        asked: Any = {"model": _MODEL, "max_tokens": 100, "messages": [_asked(f"Tell of {town}")]}
        with client.messages.stream(**asked) as stream:
            return stream.get_final_text()

    in_step = await desk.step("ask", ask, "Lund")
    both = await asyncio.gather(asyncio.to_thread(ask, "Malmö"), asyncio.to_thread(stream, "Ystad"))
    return {"in_step": in_step, "both": both}


def test_a_plain_question(asking: AskingHouse) -> None:
    answers_alike(asking, _plainly)


def test_streams(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _streamed)
    assert [call.request.get("stream") for call in calls] == [None, None]


def test_a_loop_with_parallel_tools(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _with_tools)
    assert [(call.position, call.tools) for call in calls] == [(1, ["weather"]), (2, ["weather"]), (3, ["weather"])]


def test_the_tool_runner_of_the_package(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _with_its_own_runner)
    assert ["thread" in call.request for call in calls] == [False] * 3
    assert [len(call.request["messages"]) for call in calls] == [1, 3, 5]


def test_a_conversation_that_the_provider_would_hold_is_sent_whole(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _in_a_thread)
    assert [len(call.request["messages"]) for call in calls] == [1, 3]


def test_one_that_must_be_held_is_refused_with_what_to_do(asking: AskingHouse) -> None:
    assert "continue_unthreaded" in str(asking.ask(_in_a_thread_at_all_costs)["result"])
    assert asking.calls() == []


def test_structured_output(asking: AskingHouse) -> None:
    answers_alike(asking, _structured)


def test_sync_clients_in_threads(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _from_threads)
    assert sorted(call.step for call in calls) == ["", "", "ask#1"]
