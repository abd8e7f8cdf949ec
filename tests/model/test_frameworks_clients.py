"""desk.http_client() as it is: for older libraries, for requests made by hand, and for what it does not carry."""

from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI, BadRequestError

from nightdesk.work import Desk
from tests.model.asking import AskingHouse, answers_alike

_GPT, _CLAUDE = "gpt-5-mini", "claude-haiku-4-5"


def _asked(text: str) -> Any:
    return [{"role": "user", "content": text}]


async def _over_httpx(order: Any, desk: Desk) -> Any:
    """With a package that takes the older library too; and by hand, as a stream, and sync in a step."""
    older: Any = desk.http_client(library="httpx")
    client = AsyncOpenAI(http_client=older)
    response = await client.responses.create(model=_GPT, input="Write about Lund")
    url, headers = f"{client.base_url}chat/completions", {"authorization": f"Bearer {client.api_key}"}

    def by_hand(town: str) -> Any:
        body = {"model": _GPT, "messages": _asked(f"Write about {town}")}
        answer = desk.http_client(sync=True, library="httpx").post(url, json=body, headers=headers)
        return answer.raise_for_status().json()["choices"]

    body = {"model": _GPT, "messages": _asked("Write about Malmö"), "stream": True}
    streamed = await desk.http_client(library="httpx").post(url, json=body, headers=headers)
    lines = [line async for line in streamed.aiter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [response.output_text, await desk.step("by hand", by_hand, "Ystad")]


async def _looked_up(order: Any, desk: Desk) -> Any:
    """What asks no model and costs nothing goes through, and is no call."""
    claude, gpt = AsyncAnthropic(http_client=desk.http_client()), AsyncOpenAI(http_client=desk.http_client())
    gemini = genai.Client(http_options=types.HttpOptions(httpx_async_client=desk.http_client())).aio
    said = _asked("Write about Lund")
    counted = await claude.messages.count_tokens(model=_CLAUDE, messages=said)
    of_gemini = await gemini.models.count_tokens(model="gemini-2.5-flash", contents="Write about Lund")
    files = await gpt.files.list()
    message = await claude.messages.create(model=_CLAUDE, max_tokens=100, messages=said)
    assert message.usage.input_tokens == counted.input_tokens == of_gemini.total_tokens
    return [counted.input_tokens, files.data]


async def _uncarried(order: Any, desk: Desk) -> Any:
    client = AsyncOpenAI(http_client=desk.http_client())
    told = []
    for ask in (
        client.embeddings.create(model="text-embedding-3-small", input="Lund"),
        client.batches.create(input_file_id="f", endpoint="/v1/responses", completion_window="24h"),
        client.responses.create(model=_GPT, input="Write about Lund", background=True),
    ):
        with pytest.raises(BadRequestError) as caught:
            await ask
        told.append(caught.value.message)
    return told


async def _in_its_own_thread(order: Any, desk: Desk) -> Any:
    client = Anthropic(http_client=desk.http_client(sync=True))
    return client.messages.create(model=_CLAUDE, max_tokens=100, messages=_asked("Write about Lund")).id


async def _of_another_library(order: Any, desk: Desk) -> Any:
    unknown: Any = "aiohttp"
    return desk.http_client(library=unknown)


def test_the_older_library_and_requests_by_hand(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _over_httpx)
    assert sorted((call.endpoint, call.step) for call in calls) == [
        ("chat", ""),
        ("chat", "by hand#1"),
        ("responses", ""),
    ]


def test_looking_things_up_goes_through(asking: AskingHouse) -> None:
    assert len(answers_alike(asking, _looked_up)) == 1


def test_what_is_not_carried_is_refused_with_the_reason(asking: AskingHouse) -> None:
    embeddings, batch, background = asking.ask(_uncarried)["result"]
    assert "carries requests to models" in embeddings
    assert "do not use the framework's own batching" in batch
    assert "background" in background
    assert (asking.calls(), asking.meter()["executions"]) == ([], 0)


@pytest.mark.parametrize(
    ("body", "why"), [(_in_its_own_thread, "in a plain function given to desk.step"), (_of_another_library, "httpx2")]
)
def test_a_wrong_use_is_answered_with_the_right_one(asking: AskingHouse, body: Any, why: str) -> None:
    task = asking.ask(body, limits={"retries": 0})
    assert task["state"] == "dead"
    assert why in str(task["error"])
