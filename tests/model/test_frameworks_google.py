"""The official google-genai package, unchanged: the same answers under the transport as without."""

import asyncio
from typing import Any

import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel

from nightdesk.work import Desk
from tests.model.asking import AskingHouse, answers_alike

_MODEL = "gemini-2.5-flash"
_TOWN = types.Schema(type=types.Type.OBJECT, properties={"town": types.Schema(type=types.Type.STRING)})
_WEATHER = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", parameters=_TOWN)])


class Town(BaseModel):
    name: str
    people: int


def _client(desk: Desk) -> Any:
    return genai.Client(http_options=types.HttpOptions(httpx_async_client=desk.http_client())).aio.models


def _shown(answer: types.GenerateContentResponse) -> Any:
    """Without the ids that Nightdesk gives to calls which have none, and the tokens that these are."""
    assert answer.usage_metadata
    assert answer.usage_metadata.total_token_count
    return _without_ids([candidate.model_dump(mode="json", exclude_none=True) for candidate in answer.candidates or ()])


def _without_ids(told: Any) -> Any:
    if isinstance(told, list):
        return [_without_ids(item) for item in told]
    return {key: _without_ids(item) for key, item in told.items() if key != "id"} if isinstance(told, dict) else told


async def _plainly(order: Any, desk: Desk) -> Any:
    config = types.GenerateContentConfig(system_instruction="Be short.", candidate_count=2)
    answer = await _client(desk).generate_content(model=_MODEL, contents="Write about Lund, please", config=config)
    return _shown(answer)


async def _streamed(order: Any, desk: Desk) -> Any:
    models, asked = _client(desk), {"model": _MODEL, "config": types.GenerateContentConfig(tools=[_WEATHER])}
    helped = await models.generate_content_stream(contents="The weather in Lund?", **asked)
    told = [_shown(chunk) async for chunk in helped]
    written = await models.generate_content_stream(contents='Write about Malmö. sim:{"turns":0}', **asked)
    return {"told": told, "words": "".join([chunk.text async for chunk in written])}


async def _with_tools(desk: Desk, prompt: str) -> Any:
    """An agent's loop as the documentation of the API has it, with two functions called at once."""
    config = types.GenerateContentConfig(tools=[_WEATHER])
    said, told = [types.Content(role="user", parts=[types.Part(text=prompt)])], []
    while True:
        answer = await _client(desk).generate_content(model=_MODEL, contents=said, config=config)
        told.append(_shown(answer))
        if not answer.function_calls:
            return told
        said.append(answer.candidates[0].content)
        results = [
            types.FunctionResponse(id=call.id, name=call.name, response={"output": f"sunny in {call.args['town']}"})
            for call in answer.function_calls
        ]
        said.append(types.Content(role="user", parts=[types.Part(function_response=result) for result in results]))


async def _without_any_ids(order: Any, desk: Desk) -> Any:
    return await _with_tools(desk, 'Compare the weather in Lund and Malmö. sim:{"turns":2,"parallel":2}')


async def _with_its_own_ids(order: Any, desk: Desk) -> Any:
    return await _with_tools(desk, 'Compare the weather in Lund and Malmö. sim:{"turns":2,"parallel":2,"ids":true}')


async def _by_itself(order: Any, desk: Desk) -> Any:
    """The package calls the functions that it is given; here in a chat."""

    async def weather(town: str) -> str:
        """The weather in a town."""
        return str(await desk.step("weather", str.upper, town))

    client = genai.Client(http_options=types.HttpOptions(httpx_async_client=desk.http_client())).aio
    chat = client.chats.create(model=_MODEL, config=types.GenerateContentConfig(tools=[weather]))
    answer = await chat.send_message('The weather in Lund? sim:{"turns":2}')
    return {"text": answer.text, "turns": len(chat.get_history())}


async def _structured(order: Any, desk: Desk) -> Any:
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Town)
    answer = await _client(desk).generate_content(model=_MODEL, contents="name: Lund, people: 94000", config=config)
    assert isinstance(answer.parsed, Town)
    return answer.parsed


async def _from_threads(order: Any, desk: Desk) -> Any:
    """A sync client, in a step and in threads of the playbook's own."""
    client = genai.Client(http_options=types.HttpOptions(httpx_client=desk.http_client(sync=True)))

    def ask(town: str) -> Any:
        return _shown(client.models.generate_content(model=_MODEL, contents=f"Write about {town}"))

    def stream(town: str) -> str:
        chunks = client.models.generate_content_stream(model=_MODEL, contents=f"Tell of {town}")
        return "".join(chunk.text or "" for chunk in chunks)

    in_step = await desk.step("ask", ask, "Lund")
    return [in_step, *await asyncio.gather(asyncio.to_thread(ask, "Malmö"), asyncio.to_thread(stream, "Ystad"))]


def test_a_plain_question(asking: AskingHouse) -> None:
    answers_alike(asking, _plainly)


def test_streams(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _streamed)
    assert [call.endpoint for call in calls] == ["generate", "generate"]


@pytest.mark.parametrize("body", [_without_any_ids, _with_its_own_ids])
def test_a_loop_with_parallel_functions(asking: AskingHouse, body: Any) -> None:
    calls = answers_alike(asking, body)
    assert [call.tools for call in calls] == [["weather"]] * 3
    assert "id" in str(calls[1].request["contents"][1]["parts"])


def test_functions_that_the_package_calls_by_itself(asking: AskingHouse) -> None:
    assert len(answers_alike(asking, _by_itself)) == 3


def test_structured_output(asking: AskingHouse) -> None:
    answers_alike(asking, _structured)


def test_sync_clients_in_threads(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _from_threads)
    assert sorted(call.step for call in calls) == ["", "", "ask#1"]
