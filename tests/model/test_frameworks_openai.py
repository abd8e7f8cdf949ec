"""The official openai package, unchanged, Responses and Chat Completions: the same answers under the transport as
without."""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from nightdesk.work import Desk
from tests.model.asking import AskingHouse, answers_alike

_MODEL = "gpt-5-mini"
_TOWN = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
    "additionalProperties": False,
}
_WEATHER: Any = {"type": "function", "name": "weather", "parameters": _TOWN, "strict": True}
_CHAT_WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": _TOWN, "strict": True}}
_LIMIT = "max_output_tokens"
_TWICE = 'Compare the weather in Lund and Malmö. sim:{"turns":2,"parallel":2}'


class Town(BaseModel):
    name: str
    people: int


def _client(desk: Desk) -> AsyncOpenAI:
    return AsyncOpenAI(http_client=desk.http_client())


def _asked(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _shown(answer: BaseModel) -> Any:
    """Without what no two answers have in common, and the limit of tokens that Nightdesk states where there is none."""
    return _without(answer.model_dump(mode="json", exclude_none=True), "id", "call_id", "created", "created_at", _LIMIT)


def _without(told: Any, *names: str) -> Any:
    if isinstance(told, list):
        return [_without(item, *names) for item in told]
    if not isinstance(told, dict):
        return told
    return {key: _without(value, *names) for key, value in told.items() if key not in names}


async def _plainly(order: Any, desk: Desk) -> Any:
    client = _client(desk)
    response = await client.responses.create(model=_MODEL, instructions="Be short.", input="Write about Lund, please")
    completion = await client.chat.completions.create(model=_MODEL, messages=_asked("Write about Malmö"), n=2)
    assert len(completion.choices) == 2
    return [_shown(response), _shown(completion)]


async def _streamed_responses(order: Any, desk: Desk) -> Any:
    client = _client(desk)
    asked: Any = {"model": _MODEL, "tools": [_WEATHER]}
    async with client.responses.stream(input="The weather in Lund?", **asked) as stream:
        kinds = {event.type async for event in stream}
        helped = await stream.get_final_response()
    words = ""
    async for event in await client.responses.create(
        model=_MODEL, input='Write about Malmö. sim:{"turns":0}', tools=[_WEATHER], stream=True
    ):
        words += event.delta if event.type == "response.output_text.delta" else ""
    return {"helped": _shown(helped), "kinds": sorted(kinds), "words": words}


async def _streamed_chat(order: Any, desk: Desk) -> Any:
    client = _client(desk)
    async with client.chat.completions.stream(
        model=_MODEL, messages=_asked(_TWICE), tools=[_CHAT_WEATHER], stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type async for event in stream}
        helped = await stream.get_final_completion()
    words = {0: "", 1: ""}
    async for chunk in await client.chat.completions.create(
        model=_MODEL, messages=_asked("Write about Ystad"), n=2, stream=True
    ):
        assert chunk.usage is None
        for choice in chunk.choices:
            words[choice.index] += choice.delta.content or ""
    assert words[0] == words[1]
    return {"helped": _shown(helped), "kinds": sorted(kinds), "words": words[0]}


async def _responses_with_tools(order: Any, desk: Desk) -> Any:
    """An agent's loop as the documentation of the API has it, with two functions called at once."""
    client, said, told = _client(desk), _asked(_TWICE), []
    while True:
        answer = await client.responses.create(model=_MODEL, tools=[_WEATHER], input=said)
        told.append(_shown(answer))
        said += answer.output
        called = [item for item in answer.output if item.type == "function_call"]
        if not called:
            return told
        for call in called:
            output = f"sunny in {json.loads(call.arguments)['town']}"
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


async def _chat_with_tools(order: Any, desk: Desk) -> Any:
    client, said, told = _client(desk), _asked(_TWICE), []
    while True:
        answer = await client.chat.completions.create(model=_MODEL, tools=[_CHAT_WEATHER], messages=said)
        told.append(_shown(answer))
        message = answer.choices[0].message
        if not message.tool_calls:
            return told
        said.append(message)
        for call in message.tool_calls:
            assert call.type == "function"
            output = f"sunny in {json.loads(call.function.arguments)['town']}"
            said.append({"role": "tool", "tool_call_id": call.id, "content": output})


async def _structured(order: Any, desk: Desk) -> Any:
    client, text = _client(desk), "name: Lund, people: 94000"
    response = await client.responses.parse(model=_MODEL, input=text, text_format=Town)
    completion = await client.chat.completions.parse(model=_MODEL, messages=_asked(text), response_format=Town)
    assert response.output_parsed == completion.choices[0].message.parsed
    assert response.output_parsed is not None
    return response.output_parsed


async def _from_threads(order: Any, desk: Desk) -> Any:
    """A sync client, in a step and in threads of the playbook's own."""
    client = OpenAI(http_client=desk.http_client(sync=True))

    def ask(town: str) -> Any:
        return _shown(client.responses.create(model=_MODEL, input=f"Write about {town}"))

    def stream(town: str) -> str:
        with client.chat.completions.stream(model=_MODEL, messages=_asked(f"Tell of {town}")) as stream:
            return str(stream.get_final_completion().choices[0].message.content)

    in_step = await desk.step("ask", ask, "Lund")
    return [in_step, *await asyncio.gather(asyncio.to_thread(ask, "Malmö"), asyncio.to_thread(stream, "Ystad"))]


def test_plain_questions(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _plainly)
    assert [call.endpoint for call in calls] == ["responses", "chat"]


def test_streams_of_responses(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _streamed_responses)
    assert [call.request.get("stream") for call in calls] == [None, None]


def test_streams_of_chat(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _streamed_chat)
    assert [{"stream", "stream_options"} & call.request.keys() for call in calls] == [set(), set()]


def test_a_loop_over_responses_with_parallel_tools(asking: AskingHouse) -> None:
    assert [call.tools for call in answers_alike(asking, _responses_with_tools)] == [["weather"]] * 3


def test_a_loop_over_chat_with_parallel_tools(asking: AskingHouse) -> None:
    assert [call.tools for call in answers_alike(asking, _chat_with_tools)] == [["weather"]] * 3


def test_structured_output(asking: AskingHouse) -> None:
    assert len(answers_alike(asking, _structured)) == 2


def test_sync_clients_in_threads(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _from_threads)
    assert sorted(call.step for call in calls) == ["", "", "ask#1"]
