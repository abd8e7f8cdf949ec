"""What a provider refuses is raised by its SDK as its own exception: live, from a batch and without Nightdesk alike."""

from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.model.plain import without_nightdesk
from tests.support.hand import Body


async def _messages(desk: Desk, text: str, streamed: bool) -> Any:
    client = anthropic.AsyncAnthropic(http_client=desk.http_client())
    said: Any = [{"role": "user", "content": text}]
    return await client.messages.create(model="claude-haiku-4-5", max_tokens=100, messages=said, stream=streamed)


async def _chat(desk: Desk, text: str, streamed: bool) -> Any:
    client = openai.AsyncOpenAI(http_client=desk.http_client())
    said: Any = [{"role": "user", "content": text}]
    return await client.chat.completions.create(model="gpt-5-mini", messages=said, stream=streamed)


async def _responses(desk: Desk, text: str, streamed: bool) -> Any:
    client = openai.AsyncOpenAI(http_client=desk.http_client())
    return await client.responses.create(model="gpt-5-mini", input=text, stream=streamed)


async def _generate(desk: Desk, text: str, streamed: bool) -> Any:
    models = genai.Client(http_options=types.HttpOptions(httpx_async_client=desk.http_client())).aio.models
    if not streamed:
        return await models.generate_content(model="gemini-2.5-flash", contents=text)
    return [chunk async for chunk in await models.generate_content_stream(model="gemini-2.5-flash", contents=text)]


_SDKS = [_messages, _chat, _responses, _generate]


def _raised(ask: Any, text: str, streamed: bool = False) -> Body:
    async def body(order: Any, desk: Desk) -> Any:
        try:
            await ask(desk, text, streamed)
        except (anthropic.APIStatusError, openai.APIStatusError) as error:
            return [type(error).__name__, error.status_code, error.message]
        except errors.APIError as error:
            return [type(error).__name__, error.code, error.message]
        raise AssertionError("nothing was raised")

    return body


@pytest.mark.parametrize("ask", _SDKS)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_is_wrong(asking: AskingHouse, ask: Any, streamed: bool) -> None:
    body = _raised(ask, 'sim:{"status":400}', streamed)
    plain = without_nightdesk(body)
    asking.set(waves={"canary": False})
    for lane in ("live", "batch"):
        task = asking.ask(body, name=lane, lane=lane)
        assert (task["state"], task["result"], task["error"]) == ("done", plain, None)
    assert [(call.status, call.http_status, call.lane) for call in asking.calls()] == [
        ("failed", 400, "live"),
        ("failed", 400, "batch"),
    ]
    assert asking.meter()["executions"] == 0


@pytest.mark.parametrize("ask", _SDKS)
def test_no_sdk_tries_again_what_nightdesk_answered(asking: AskingHouse, ask: Any) -> None:
    task = asking.ask(_raised(ask, 'sim:{"status":500}'), lane="live")
    assert task["result"][1] == 500
    assert [(call.status, call.attempt) for call in asking.calls()] == [("failed", 1)]
