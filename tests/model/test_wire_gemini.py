"""Gemini's protocol, tried with Google's SDK and with Pydantic AI on it, both unchanged."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers import find, recognise
from nightdesk.model.providers.headers import retry_after
from tests.model.answering import Answering, asked, post

MODEL = "gemini-2.5-flash"
HOST = "https://generativelanguage.googleapis.com"
URL = f"{HOST}/v1beta/models/{MODEL}:generateContent"
STREAM_URL = f"{HOST}/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
NOW = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
GEMINI = find("gemini")
WORDS = "Paris.\n\nNot Lyon\u2028…"


class City(BaseModel):
    name: str
    people: int


PARIS = City(name="Paris", people=2_100_000)


def called(name: str, id: str = "", /, **arguments: Json) -> Json:
    return {"functionCall": {"name": name, "args": arguments, **({"id": id} if id else {})}}


def answer(*parts: Json, reason: str = "STOP", **more: Json) -> Json:
    return {
        "responseId": "response-1",
        "modelVersion": MODEL,
        "candidates": [{"index": 0, "content": {"role": "model", "parts": list(parts)}, "finishReason": reason}],
        "usageMetadata": {
            "promptTokenCount": 12,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 5,
            "totalTokenCount": 22,
        },
        **more,
    }


TEXT = {"text": WORDS}
THOUGHT = {"text": "Let me see", "thought": True}
SIGNED = {"functionCall": {"id": "c1", "name": "a", "args": {"x": [None, "ü"]}}, "thoughtSignature": "c2lnbmVk"}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}


@contextmanager
def client(transport: Answering) -> Iterator[genai.Client]:
    with httpx2.Client(transport=transport) as http:
        options = types.HttpOptions(httpx_client=http, base_url=HOST)
        yield genai.Client(vertexai=False, api_key="key-of-a-test", http_options=options)  # pragma: allowlist secret


def question(**more: Json) -> dict[str, Json]:
    return {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **more}


@pytest.mark.parametrize(
    "told",
    [
        answer(TEXT),
        answer({"text": ""}),
        answer(THOUGHT, TEXT),
        answer(SIGNED, called("b", "c2")),
        answer(CODE, RAN, PICTURE, TEXT),
        answer(TEXT, reason="MAX_TOKENS"),
        answer(reason="SAFETY"),
        BLOCKED,
    ],
    ids=["text", "empty", "thought", "calls", "code", "cut", "refused", "blocked"],
)
def test_the_sdk_gets_the_same_answer_streamed_and_plain(told: Json) -> None:
    transport = Answering(told)
    with client(transport) as sdk:
        plain = sdk.models.generate_content(model=MODEL, contents="hi")
        chunks = list(sdk.models.generate_content_stream(model=MODEL, contents="hi"))
    assert [_said(chunk) for chunk in chunks] == [_said(plain)]
    assert len({ask.hash for ask in transport.asks}) == 1
    assert [ask.streamed for ask in transport.asks] == [False, True]


def _said(told: types.GenerateContentResponse) -> Json:
    """Without what the SDK adds of its own."""
    return told.model_dump(exclude={"sdk_http_response", "automatic_function_calling_history"})


def test_the_key_is_no_part_of_the_question() -> None:
    transport = Answering(answer(TEXT))
    with client(transport) as sdk:
        sdk.models.generate_content(model=MODEL, contents="hi")
    [ask] = transport.asks
    assert "key-of-a-test" not in repr(ask)
    by_query = asked(URL + "?key=secret&prettyPrint=false", ask.body)
    assert "secret" not in repr(by_query)
    assert by_query.path == f"/v1beta/models/{MODEL}:generateContent"


def agent(transport: Answering, **more: Any) -> Agent[None, Any]:
    http = httpx2.AsyncClient(transport=transport, timeout=60)
    return Agent(GoogleModel(MODEL, provider=GoogleProvider(api_key="k", http_client=http)), **more)


@pytest.mark.parametrize("streamed", [False, True])
def test_pydantic_ai_runs_parallel_tools_and_gets_its_structured_output(streamed: bool) -> None:
    transport = Answering(
        answer(called("twice", of=2), called("twice", of=3)), answer(called("final_result", **PARIS.model_dump()))
    )
    asking = agent(transport, output_type=City)
    seen: list[int] = []

    @asking.tool_plain
    def twice(of: int) -> int:
        seen.append(of)
        return 2 * of

    assert asyncio.run(_run(asking, streamed)) == PARIS
    assert sorted(seen) == [2, 3]
    assert GEMINI.tools(transport.asks[0]) == ["twice", "final_result"]


async def _run(asking: Agent[None, Any], streamed: bool) -> Any:
    if not streamed:
        return (await asking.run("hi")).output
    async with asking.run_stream("hi") as result:
        return await result.get_output()


def test_the_second_turn_of_an_agent_is_the_same_request_each_time() -> None:
    """Pydantic AI makes up an id for a call that has none, and sends it back."""
    asks: list[Ask] = []
    for _ in range(2):
        transport = Answering(answer(called("twice", of=2), called("twice", of=3)), answer(TEXT))
        asking = agent(transport, tools=[_twice])
        assert asyncio.run(asking.run("hi")).output == WORDS
        asks += transport.asks
    first, second, first_again, second_again = [ask.hash for ask in asks]
    assert (first, second) == (first_again, second_again)
    assert first != second


def _twice(of: int) -> int:
    return 2 * of


def test_calls_without_an_id_get_different_ones_and_the_others_keep_theirs() -> None:
    told = answer(called("a", x=1), called("a", x=1), called("b", "kept"), TEXT)
    completed = GEMINI.completed(asked(URL, question()), told)
    parts = completed["candidates"][0]["content"]["parts"]
    first, second, kept = (part["functionCall"]["id"] for part in parts[:3])
    assert kept == "kept"
    assert first != second
    assert parts[3] == TEXT
    assert "id" not in told["candidates"][0]["content"]["parts"][0]["functionCall"]
    assert GEMINI.completed(asked(URL, question()), told) == completed
    other = GEMINI.completed(asked(URL, question(labels={"a": "b"})), told)
    assert other["candidates"][0]["content"]["parts"][0]["functionCall"]["id"] != first


@pytest.mark.parametrize("told", [{}, [], None, {"candidates": [{}]}, {"candidates": [{"content": {"parts": None}}]}])
def test_an_answer_in_another_form_is_left_as_it_is(told: Json) -> None:
    assert GEMINI.completed(asked(URL, question()), told) == told


def test_pydantic_ai_counts_the_same_usage_streamed_and_plain() -> None:
    transport = Answering(answer(TEXT))
    plain = asyncio.run(agent(transport).run("hi")).usage

    async def stream() -> Any:
        async with agent(transport).run_stream("hi") as result:
            assert await result.get_output() == WORDS
            return result.usage

    usage = asyncio.run(stream())
    assert (usage.input_tokens, usage.output_tokens) == (plain.input_tokens, plain.output_tokens) == (12, 10)
    assert len({ask.hash for ask in transport.asks}) == 1


@settings(max_examples=40, deadline=None)
@given(text=st.text(), argument=st.text())
def test_any_text_survives_the_stream(text: str, argument: str) -> None:
    with client(Answering(answer({"text": text}, called("a", x=argument)))) as sdk:
        [chunk] = sdk.models.generate_content_stream(model=MODEL, contents="hi")
    parts = chunk.candidates[0].content.parts  # type: ignore[index, union-attr]
    assert parts is not None
    assert parts[0].text == text
    assert parts[1].function_call is not None
    assert parts[1].function_call.args == {"x": argument}


async def _ask_async(transport: Answering) -> str | None:
    async with httpx2.AsyncClient(transport=transport) as http:
        options = types.HttpOptions(httpx_async_client=http, base_url=HOST)
        sdk = genai.Client(vertexai=False, api_key="k", http_options=options).aio
        return (await sdk.models.generate_content(model=MODEL, contents="hi")).text


def test_the_async_sdk_is_answered() -> None:
    assert asyncio.run(_ask_async(Answering(answer(TEXT)))) == WORDS


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "raised", "name"),
    [
        (400, errors.ClientError, "INVALID_ARGUMENT"),
        (401, errors.ClientError, "UNAUTHENTICATED"),
        (403, errors.ClientError, "PERMISSION_DENIED"),
        (404, errors.ClientError, "NOT_FOUND"),
        (418, errors.ClientError, "FAILED_PRECONDITION"),
        (429, errors.ClientError, "RESOURCE_EXHAUSTED"),
        (500, errors.ServerError, "INTERNAL"),
        (503, errors.ServerError, "UNAVAILABLE"),
    ],
)
def test_an_error_becomes_the_exception_of_the_sdk_and_is_not_tried_again(
    status: int, raised: type[errors.APIError], name: str, streamed: bool
) -> None:
    transport = Answering(GEMINI.error("generate", status, "that is why"), status=status)
    with client(transport) as sdk:
        ask: Any = sdk.models.generate_content_stream if streamed else sdk.models.generate_content
        with pytest.raises(raised) as caught:
            list(ask(model=MODEL, contents="hi"))
    assert (caught.value.code, caught.value.status, caught.value.message) == (status, name, "that is why")
    assert len(transport.asks) == 1


@pytest.mark.parametrize(
    ("url", "base_url", "path", "model", "streamed"),
    [
        (URL, HOST, f"/v1beta/models/{MODEL}:generateContent", MODEL, False),
        (STREAM_URL, HOST, f"/v1beta/models/{MODEL}:generateContent", MODEL, True),
        (f"{HOST}/v1/models/m:generateContent?%24alt=json&x=1", HOST, "/v1/models/m:generateContent?x=1", "m", False),
        (
            "http://h:9/s/v1alpha/models/m:generateContent",
            "http://h:9/s",
            "/v1alpha/models/m:generateContent",
            "m",
            False,
        ),
        (f"{HOST}/v1/tunedModels/t:generateContent", HOST, "/v1/tunedModels/t:generateContent", "tunedModels/t", False),
    ],
)
def test_it_is_recognised_on_any_host(url: str, base_url: str, path: str, model: str, streamed: bool) -> None:
    ask = asked(url, question(), x_goog_api_key="secret", x_goog_api_client="x")
    assert (ask.provider, ask.endpoint, ask.base_url, ask.path) == ("google", "generate", base_url, path)
    assert (ask.model, ask.streamed, ask.headers) == (model, streamed, {})


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("GET", URL, {}, b""),
        post(f"{HOST}/v1/models/{MODEL}:countTokens", question()),
        post(f"{HOST}/v1/models/{MODEL}:embedContent", question()),
        post(f"{HOST}/v1/files/x:generateContent", question()),
    ],
)
def test_what_asks_no_model_is_left_alone(request_: HttpRequest) -> None:
    assert recognise(request_) is None


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"contents": NaN}', b"\xff", b'{"a":' * 100_000])
def test_what_cannot_be_carried_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        recognise(HttpRequest("POST", URL, {}, body))


def test_a_batch_of_its_own_and_a_stream_of_an_array_are_refused() -> None:
    with pytest.raises(Invalid, match="batch"):
        recognise(post(f"{HOST}/v1/models/{MODEL}:batchGenerateContent", {"batch": {}}))
    with pytest.raises(Invalid, match="alt=sse"):
        recognise(post(f"{HOST}/v1/models/{MODEL}:streamGenerateContent", question()))


def test_the_key_is_found_and_sent() -> None:
    assert GEMINI.sent_key(GEMINI.auth_headers("a")) == "a"
    assert GEMINI.sent_key({"authorization": "Bearer b"}) == "b"
    assert GEMINI.sent_key({}) is None


@pytest.mark.parametrize(
    ("config", "limit", "stated"),
    [
        ({}, None, 10),
        ({"maxOutputTokens": 50, "temperature": 1}, 50, 10),
        ({"max_output_tokens": 60}, 60, 10),
        ({"maxOutputTokens": 50, "candidateCount": 3}, 150, 3),
        ({"maxOutputTokens": 0}, None, 10),
    ],
)
@pytest.mark.parametrize("name", ["generationConfig", "generation_config"])
def test_the_limit_of_output_tokens_has_its_field(name: str, config: Json, limit: int | None, stated: int) -> None:
    ask = asked(URL, question(**{name: config}))
    limited = GEMINI.limited(ask, 10)
    assert GEMINI.output_limit(ask) == limit
    assert limited["generationConfig"]["maxOutputTokens"] == stated
    assert set(limited) == {"contents", "generationConfig"}
    assert "max_output_tokens" not in limited["generationConfig"]
    assert limited["generationConfig"].get("temperature") == config.get("temperature")


def test_flex_is_a_field_of_the_body_and_another_model_a_part_of_the_path() -> None:
    ask = asked(URL, question(service_tier="standard"))
    assert GEMINI.flexed(ask.body) == question(serviceTier="flex")
    other = GEMINI.with_model(ask, "gemini-2.5-pro")
    assert (other.model, other.path) == ("gemini-2.5-pro", "/v1beta/models/gemini-2.5-pro:generateContent")
    tuned = GEMINI.with_model(ask, "tunedModels/t")
    assert (tuned.model, tuned.path) == ("tunedModels/t", "/v1beta/tunedModels/t:generateContent")
    assert ask.hash != other.hash


def test_every_kind_of_tool_has_a_name() -> None:
    tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}, {"googleSearch": {}}]
    tools += [{"function_declarations": [{"name": "c"}]}]
    assert GEMINI.tools(asked(URL, question(tools=tools))) == ["a", "b", "googleSearch", "c"]


def _error(status: int, message: str, reason: str = "") -> Json:
    error = GEMINI.error("generate", status, message)
    error["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    return error


@pytest.mark.parametrize(
    ("status", "message", "reason", "trouble"),
    [
        (400, "bad", "", "invalid"),
        (400, "API key not valid. Please pass a valid API key.", "", "credentials"),
        (400, "no", "API_KEY_INVALID", "credentials"),
        (403, "no", "", "credentials"),
        (403, "no", "BILLING_DISABLED", "spend"),
        (402, "no", "", "spend"),
        (404, "model", "", "invalid"),
        (429, "You exceeded your current quota", "", "rate"),
        (429, "Your prepayment credits are depleted.", "", "spend"),
        (409, "", "", "overload"),
        (499, "", "", "overload"),
        (503, "The model is overloaded.", "", "overload"),
    ],
)
def test_troubles_are_told_apart(status: int, message: str, reason: str, trouble: str) -> None:
    error = _error(status, message, reason)
    assert GEMINI.trouble(status, error) == trouble
    # A stream's error is the only one in an array.
    assert GEMINI.trouble(status, [error]) == trouble


@pytest.mark.parametrize("body", [None, "text", [], {"error": "words"}])
def test_an_error_in_an_unknown_form_is_still_told_apart(body: Json) -> None:
    assert GEMINI.trouble(503, body) == "overload"


def test_headers_tell_nothing_of_limits_but_errors_tell_when_to_come_back() -> None:
    assert GEMINI.learned({"x-ratelimit-limit-requests": "5"}, NOW) == []
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {"error": {"code": 429, "details": [{"@type": "quota"}, retry]}}
    assert retry_after({}, NOW, error) == 34.5
    assert retry_after({"retry-after": "3"}, NOW, error) == 3
    assert retry_after({}, NOW, json.loads(json.dumps([error]))) == 34.5
