"""Keys pass through, and stay nowhere: neither in the database nor in the log, whatever becomes of the request."""

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI

from nightdesk.work import Desk
from tests.model.asking import AskingHouse

_KEYS = {"a": "sk-night-aaaa1111bbbb2222", "b": "sk-night-cccc3333dddd4444"}  # pragma: allowlist secret


async def _ask_claude(desk: Desk, key: str, text: str) -> None:
    messages: Any = [{"role": "user", "content": text}]
    client = AsyncAnthropic(api_key=key, http_client=desk.http_client())
    await client.messages.create(model="claude-haiku-4-5", max_tokens=50, messages=messages)


async def _ask_gpt(desk: Desk, key: str, text: str) -> None:
    await AsyncOpenAI(api_key=key, http_client=desk.http_client()).responses.create(model="gpt-5-mini", input=text)


async def _ask_gemini(desk: Desk, key: str, text: str) -> None:
    options = types.HttpOptions(httpx_async_client=desk.http_client())
    client = genai.Client(vertexai=False, api_key=key, http_options=options)
    await client.aio.models.generate_content(model="gemini-2.5-flash", contents=text)


@pytest.mark.parametrize("ask", [_ask_claude, _ask_gpt, _ask_gemini])
def test_no_key_is_stored_or_logged(
    asking: AskingHouse, ask: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither when all goes well nor when the provider refuses it, live or for a batch."""

    async def body(order: Any, desk: Desk) -> Any:
        await ask(desk, _KEYS[order.name], "Say it.")

    asking.set(waves={"canary": False})
    asking.fault("not_found", times=1)
    asking.ask(body, name="a", lane="batch")
    asking.ask(body, name="b", lane="live")
    hashes = {call.body_hash for call in asking.calls()}
    assert [call.status for call in asking.calls()] == ["done", "done"]
    assert (len(hashes), len({call.credential for call in asking.calls()})) == (1, 2)
    asking.fault("auth")
    for lane in ("live", "batch"):
        asking.have(body, lane=lane)
        asking.submit("job", {"name": "a"}, key=lane)
        asking.settle()
    told = asking.dump() + "".join(capsys.readouterr())
    assert "HTTP 40" in told
    assert not [key for key in _KEYS.values() if key in told or key[9:] in told]
