"""OpenAI's two protocols, tried with its SDK and with the frameworks that stand on it, all unchanged."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings, strategies as st
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.model.asks import HttpRequest
from nightdesk.model.providers import find, recognise
from tests.model.answering import Answering, asked, post

MODEL = "gpt-5-nano"
CHAT_URL = "https://api.openai.com/v1/chat/completions"
RESPONSES_URL = "https://api.openai.com/v1/responses"
NOW = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
PROVIDER = find("openai")
WORDS = "Paris.\n\nNot Lyon\u2028…"


class City(BaseModel):
    name: str
    people: int


PARIS = City(name="Paris", people=2_100_000)


def tool_call(number: int, name: str, /, **arguments: Json) -> Json:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def choice(index: int = 0, finish_reason: str = "stop", logprobs: Json = None, **message: Json) -> Json:
    told = {"role": "assistant", "content": None, "refusal": None, **message}
    return {"index": index, "message": told, "finish_reason": finish_reason, "logprobs": logprobs}


def completion(*choices: Json) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_000_000,
        "model": MODEL,
        "choices": list(choices),
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_1",
    }


def text_item(text: str = WORDS, **more: Json) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **more}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call_item(number: int, name: str, /, **arguments: Json) -> Json:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "first"}, {"type": "summary_text", "text": "then"}],
    "content": [{"type": "reasoning_text", "text": "in full"}],
    "encrypted_content": "eA==",
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "sky", "queries": None, "sources": None},
}
CITED = {"type": "url_citation", "start_index": 0, "end_index": 5, "title": "P", "url": "https://e.org"}
REFUSAL = text_item() | {"content": [{"type": "refusal", "refusal": "no"}]}


def response(*items: Json, status: str = "completed", **more: Json) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_795_000_000,
        "status": status,
        "model": MODEL,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 14,
        },
        **more,
    }


@contextmanager
def client(transport: Answering) -> Iterator[OpenAI]:
    http = openai.DefaultHttpx2Client(transport=transport)
    with OpenAI(api_key="key-of-a-test", http_client=http) as made:  # pragma: allowlist secret
        yield made


def chat_question(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **more}


@pytest.mark.parametrize(
    "answer",
    [
        completion(choice(content=WORDS)),
        completion(choice(content="")),
        completion(choice(refusal="I will not")),
        completion(
            choice(content="x", tool_calls=[tool_call(1, "a", x=1), tool_call(2, "b")], finish_reason="tool_calls")
        ),
        completion(choice(0, content="one"), choice(1, content="two")),
        completion(choice(content="a", annotations=[{"type": "url_citation", "url_citation": CITED}])),
    ],
    ids=["text", "empty", "refusal", "tools", "two", "annotated"],
)
def test_the_sdk_builds_the_same_completion_from_the_stream(answer: Json) -> None:
    transport = Answering(answer)
    with client(transport) as sdk:
        plain = sdk.chat.completions.create(**chat_question())
        with sdk.chat.completions.stream(**chat_question(stream_options={"include_usage": True})) as stream:
            streamed = stream.get_final_completion()
        with sdk.chat.completions.create(**chat_question(stream=True)) as chunks:
            assert all(chunk.usage is None for chunk in chunks)
    assert _told(streamed) == _told(plain)
    assert len({ask.hash for ask in transport.asks}) == 1
    assert [ask.stream_usage for ask in transport.asks] == [False, True, False]


def _told(completed: Any) -> Json:
    """What a completion says, without the fields of the stream helper."""
    told = completed.model_dump(exclude_none=True)
    for chosen in told["choices"]:
        for call in chosen["message"].get("tool_calls", []):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
    return told


def test_log_probabilities_are_told_once() -> None:
    content = [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]
    transport = Answering(completion(choice(content="a", logprobs={"content": content, "refusal": None})))
    with client(transport) as sdk, sdk.chat.completions.stream(**chat_question(logprobs=True)) as stream:
        logprobs = stream.get_final_completion().choices[0].logprobs
    assert logprobs is not None
    assert [token.token for token in logprobs.content or []] == ["a"]


def test_the_chat_stream_parses_structured_output() -> None:
    with (
        client(Answering(completion(choice(content=PARIS.model_dump_json())))) as sdk,
        sdk.chat.completions.stream(**chat_question(response_format=City)) as stream,
    ):
        assert stream.get_final_completion().choices[0].message.parsed == PARIS


@pytest.mark.parametrize(
    "answer",
    [
        response(text_item()),
        response(text_item("")),
        response(text_item(annotations=[CITED])),
        response(REASONING, text_item()),
        response(call_item(1, "a", x=1.5), call_item(2, "b")),
        response(SEARCH, text_item()),
        response(REFUSAL),
        response(text_item(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response(),
        response({"id": "ct_1", "type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls\n"}),
    ],
    ids=lambda answer: answer["status"] + " " + " ".join(item["type"] for item in answer["output"]),
)
def test_the_sdk_builds_the_same_response_from_the_stream(answer: Json) -> None:
    transport = Answering(answer)
    with client(transport) as sdk:
        plain = sdk.responses.create(model=MODEL, input="hi")
        with sdk.responses.create(model=MODEL, input="hi", stream=True) as stream:
            events = list(stream)
        with sdk.responses.stream(model=MODEL, input="hi") as helper:
            kinds = [event.type for event in helper]
    last: Any = events[-1]
    assert last.response.model_dump() == plain.model_dump()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[0] == "response.created"
    assert kinds[-1] == last.type
    assert len({ask.hash for ask in transport.asks}) == 1


def test_the_response_stream_parses_structured_output() -> None:
    with (
        client(Answering(response(text_item(PARIS.model_dump_json())))) as sdk,
        sdk.responses.stream(model=MODEL, input="hi", text_format=City) as stream,
    ):
        assert stream.get_final_response().output_parsed == PARIS


def agent(transport: Answering, endpoint: str, **more: Any) -> Agent[None, Any]:
    provider = OpenAIProvider(api_key="k", http_client=httpx2.AsyncClient(transport=transport, timeout=None))
    model = OpenAIChatModel if endpoint == "chat" else OpenAIResponsesModel
    return Agent(model(MODEL, provider=provider), **more)


_CALLED = {
    "chat": (
        completion(
            choice(tool_calls=[tool_call(1, "twice", of=2), tool_call(2, "twice", of=3)], finish_reason="tool_calls")
        ),
        completion(choice(tool_calls=[tool_call(3, "final_result", **PARIS.model_dump())], finish_reason="tool_calls")),
    ),
    "responses": (
        response(REASONING, call_item(1, "twice", of=2), call_item(2, "twice", of=3)),
        response(call_item(3, "final_result", **PARIS.model_dump())),
    ),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_pydantic_ai_runs_parallel_tools_and_gets_its_structured_output(endpoint: str, streamed: bool) -> None:
    transport = Answering(*_CALLED[endpoint])
    asking = agent(transport, endpoint, output_type=City)
    seen: list[int] = []

    @asking.tool_plain
    def twice(of: int) -> int:
        seen.append(of)
        return 2 * of

    assert asyncio.run(_run(asking, streamed)) == PARIS
    assert sorted(seen) == [2, 3]
    assert PROVIDER.tools(transport.asks[0]) == ["twice", "final_result"]
    assert {ask.endpoint for ask in transport.asks} == {endpoint}


async def _run(asking: Agent[None, Any], streamed: bool) -> Any:
    if not streamed:
        return (await asking.run("hi")).output
    async with asking.run_stream("hi") as result:
        return await result.get_output()


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_pydantic_ai_counts_the_same_usage_streamed_and_plain(endpoint: str) -> None:
    transport = Answering(completion(choice(content=WORDS)) if endpoint == "chat" else response(text_item()))
    plain = asyncio.run(agent(transport, endpoint).run("hi")).usage

    async def stream() -> Any:
        async with agent(transport, endpoint).run_stream("hi") as result:
            assert await result.get_output() == WORDS
            return result.usage

    usage = asyncio.run(stream())
    assert (usage.input_tokens, usage.output_tokens) == (plain.input_tokens, plain.output_tokens) == (9, 5)
    assert len({ask.hash for ask in transport.asks}) == 1


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_gets_the_same_streamed_and_plain(responses: bool) -> None:
    answer = response(text_item()) if responses else completion(choice(content=WORDS))
    transport = Answering(answer)
    with httpx2.Client(transport=transport) as http:
        chat = ChatOpenAI(model=MODEL, api_key="k", http_client=http, use_responses_api=responses, stream_usage=True)  # type: ignore[arg-type]
        plain = chat.invoke("hi")
        chunks: list[Any] = list(chat.stream("hi"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.text == plain.text == WORDS
    assert plain.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == plain.usage_metadata["total_tokens"] == 14
    assert len({ask.hash for ask in transport.asks}) == 1


@settings(max_examples=40, deadline=None)
@given(text=st.text(), argument=st.text())
def test_any_text_survives_both_streams(text: str, argument: str) -> None:
    answer = completion(choice(content=text, tool_calls=[tool_call(1, "a", x=argument)]))
    with client(Answering(answer)) as sdk, sdk.chat.completions.stream(**chat_question()) as stream:
        told = stream.get_final_completion().choices[0].message
    assert (told.content, [call.function.arguments for call in told.tool_calls or []]) == (
        text,
        [json.dumps({"x": argument})],
    )
    items = response(text_item(text), call_item(1, "a", x=argument))
    with client(Answering(items)) as sdk, sdk.responses.create(model=MODEL, input="hi", stream=True) as events:
        deltas = [event.delta for event in events if event.type.endswith(".delta")]  # type: ignore[union-attr]
    assert deltas == [text, json.dumps({"x": argument})]


async def _ask_async(transport: Answering) -> str:
    http = openai.DefaultAsyncHttpx2Client(transport=transport)
    async with AsyncOpenAI(api_key="k", http_client=http) as sdk:
        return (await sdk.responses.create(model=MODEL, input="hi")).output_text


def test_the_async_sdk_is_answered() -> None:
    assert asyncio.run(_ask_async(Answering(response(text_item())))) == WORDS


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (503, openai.InternalServerError),
    ],
)
def test_an_error_becomes_the_exception_of_the_sdk_and_is_not_tried_again(
    status: int, raised: type[openai.APIStatusError], streamed: bool
) -> None:
    transport = Answering(PROVIDER.error("chat", status, "that is why", "why"), status=status)
    with client(transport) as sdk, pytest.raises(raised, match="that is why") as caught:
        sdk.chat.completions.create(**chat_question(stream=streamed))
    assert caught.value.code == "why"
    assert len(transport.asks) == 1


@pytest.mark.parametrize(
    ("url", "base_url", "path", "endpoint"),
    [
        (CHAT_URL, "https://api.openai.com/v1", "/chat/completions", "chat"),
        (RESPONSES_URL, "https://api.openai.com/v1", "/responses", "responses"),
        ("http://localhost:1/chat/completions", "http://localhost:1", "/chat/completions", "chat"),
        (
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
            "https://x.openai.azure.com/openai/deployments/d",
            "/chat/completions?api-version=1",
            "chat",
        ),
    ],
)
def test_it_is_recognised_on_any_host(url: str, base_url: str, path: str, endpoint: str) -> None:
    ask = asked(url, chat_question(), authorization="Bearer s", openai_project="p", x_other="o")
    assert (ask.provider, ask.endpoint, ask.base_url, ask.path) == ("openai", endpoint, base_url, path)
    assert ask.headers == {"openai-project": "p"}


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("GET", RESPONSES_URL + "/resp_1", {}, b""),
        post(RESPONSES_URL + "/resp_1/cancel", {}),
        post("https://api.openai.com/v1/embeddings", {"model": "e"}),
        post("https://shop.example/batches", {"name": "bread"}),
    ],
)
def test_what_asks_no_model_is_left_alone(request_: HttpRequest) -> None:
    assert recognise(request_) is None


@pytest.mark.parametrize(
    "request_",
    [
        post(RESPONSES_URL, {"model": MODEL, "input": "hi", "background": True}),
        post(RESPONSES_URL, {"input": "hi"}),
        HttpRequest("GET", "wss://api.openai.com/v1/responses", {"upgrade": "websocket"}, b""),
        post("https://api.openai.com/v1/batches", {"input_file_id": "f", "endpoint": "/v1/responses"}),
        HttpRequest("POST", CHAT_URL, {}, b"[1]"),
    ],
    ids=["background", "no model", "websocket", "batch", "list"],
)
def test_what_cannot_be_carried_is_refused(request_: HttpRequest) -> None:
    with pytest.raises(Invalid):
        recognise(request_)


@pytest.mark.parametrize(
    ("url", "body", "limit", "key", "stated"),
    [
        (CHAT_URL, {}, None, "max_completion_tokens", 10),
        (CHAT_URL, {"max_completion_tokens": 50}, 50, "max_completion_tokens", 10),
        (CHAT_URL, {"max_tokens": 60}, 60, "max_tokens", 10),
        (CHAT_URL, {"max_completion_tokens": 50, "n": 3}, 150, "max_completion_tokens", 3),
        (RESPONSES_URL, {}, None, "max_output_tokens", 10),
        (RESPONSES_URL, {"max_output_tokens": 70}, 70, "max_output_tokens", 10),
    ],
)
def test_the_limit_of_output_tokens_has_its_field(
    url: str, body: Json, limit: int | None, key: str, stated: int
) -> None:
    ask = asked(url, {"model": MODEL, **body})
    assert PROVIDER.output_limit(ask) == limit
    assert PROVIDER.limited(ask, 10)[key] == stated


def test_flex_and_another_model_are_fields_of_the_body() -> None:
    ask = asked(CHAT_URL, chat_question(service_tier="auto"))
    assert PROVIDER.flexed(ask.body)["service_tier"] == "flex"
    assert PROVIDER.with_model(ask, "gpt-5-mini").body["model"] == "gpt-5-mini"
    assert ask.body["service_tier"] == "auto"


def test_every_kind_of_tool_has_a_name() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}, {"type": "custom", "custom": {"name": "b"}}]
    tools += [{"type": "function", "name": "c"}, {"type": "web_search"}]
    assert PROVIDER.tools(asked(CHAT_URL, chat_question(tools=tools))) == ["a", "b", "c", "web_search"]


@pytest.mark.parametrize(
    ("status", "code", "trouble"),
    [
        (400, "", "invalid"),
        (400, "content_policy_violation", "policy"),
        (400, "invalid_prompt", "policy"),
        (400, "billing_hard_limit_reached", "spend"),
        (401, "invalid_api_key", "credentials"),
        (403, "", "credentials"),
        (404, "model_not_found", "invalid"),
        (429, "rate_limit_exceeded", "rate"),
        (429, "insufficient_quota", "spend"),
        (429, "resource_unavailable", "overload"),
        (408, "", "overload"),
        (500, "", "overload"),
    ],
)
def test_troubles_are_told_apart(status: int, code: str, trouble: str) -> None:
    assert PROVIDER.trouble(status, PROVIDER.error("chat", status, "x", code)) == trouble


def test_rate_limits_are_read_from_the_headers() -> None:
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "1h6m0.5s",
    }
    requests, tokens = PROVIDER.learned(headers, NOW)
    assert (requests.limit, requests.remaining, requests.resets_in) == (500, 499, 0.12)
    assert (tokens.dimension, tokens.limit, tokens.resets_in) == ("input_tokens", 30_000, 3960.5)
    assert PROVIDER.learned({"x-ratelimit-reset-tokens": "soon"}, NOW) == []


def test_the_key_is_found_and_sent() -> None:
    assert PROVIDER.sent_key(PROVIDER.auth_headers("a")) == "a"
    assert PROVIDER.sent_key({"api-key": "of Azure"}) == "of Azure"
    assert PROVIDER.sent_key({}) is None
