"""Anthropic's protocol, tried with its SDK and with the frameworks that stand on it, all unchanged."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from hypothesis import given, settings, strategies as st
from langchain_anthropic import ChatAnthropic
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.model.asks import HttpRequest
from nightdesk.model.providers import find, recognise
from nightdesk.model.providers.base import Uncarried
from nightdesk.model.providers.headers import retry_after
from tests.model.answering import Answering, asked, post

MODEL = "claude-haiku-4-5"
URL = "https://api.anthropic.com/v1/messages"
NOW = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
ANTHROPIC = find("anthropic")

TEXT = {"type": "text", "text": "Paris is.\nNot Lyon\u2028or so"}
CITED = {
    "type": "text",
    "text": "the sky is blue",
    "citations": [
        {
            "type": "char_location",
            "cited_text": f"blue {number}",
            "document_index": 0,
            "document_title": "Sky",
            "start_char_index": number,
            "end_char_index": number + 4,
            "file_id": None,
        }
        for number in range(2)
    ],
}
THINKING = {"type": "thinking", "thinking": "Well … let me see", "signature": "c2lnbmVk"}
HIDDEN_THINKING = {"type": "thinking", "thinking": "", "signature": "b25seQ=="}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
SERVER_TOOL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sky"}}
SERVER_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://e.org",
            "title": "E",
            "encrypted_content": "eA==",
            "page_age": None,
        }
    ],
}


_BETA_BLOCKS: list[Json] = [
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "find", "server_name": "maps", "input": {"town": "Lund"}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": [TEXT]},
    {"type": "compaction", "content": "what was said", "encrypted_content": "eA==", "signature": "c2lnbmVk"},
]


def tool_use(name: str, number: int = 1, /, **arguments: Json) -> Json:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def message(*blocks: Json, stop_reason: str = "end_turn", **more: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(blocks),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 12,
            "output_tokens": 7,
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 3,
            "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
            "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
            "service_tier": "batch",
        },
        **more,
    }


@contextmanager
def client(transport: Answering) -> Iterator[Anthropic]:
    http = anthropic.DefaultHttpxClient(transport=transport)
    with Anthropic(api_key="key-of-a-test", http_client=http) as made:  # pragma: allowlist secret
        yield made


def question(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **more}


@pytest.mark.parametrize(
    "answer",
    [
        message(TEXT),
        message({"type": "text", "text": ""}),
        message(CITED, TEXT),
        message(THINKING, REDACTED, HIDDEN_THINKING, TEXT),
        message(tool_use("a", 1, x=1.5, deep={"y": [None, "ü"]}), tool_use("b", 2), stop_reason="tool_use"),
        message(SERVER_TOOL, SERVER_RESULT, TEXT, stop_reason="pause_turn"),
        message(stop_reason="refusal", stop_details={"type": "refusal", "category": None, "explanation": "no"}),
        message(TEXT, container={"id": "container_1", "expires_at": "2026-11-20T00:00:00Z"}),
        message(TEXT, stop_reason="stop_sequence") | {"stop_sequence": "\n\n"},
    ],
    ids=lambda answer: " ".join(block["type"] for block in answer["content"]) or "nothing",
)
def test_the_sdk_builds_the_same_message_from_the_stream(answer: Json) -> None:
    transport = Answering(answer)
    with client(transport) as sdk:
        plain = sdk.messages.create(**question())
        with sdk.messages.stream(**question()) as stream:
            streamed = stream.get_final_message()
        with sdk.messages.create(**question(stream=True)) as raw:
            assert [event.type for event in raw][-1] == "message_stop"
    assert streamed.model_dump(exclude={"content"}) == plain.model_dump(exclude={"content"})
    assert _blocks(streamed) == _blocks(plain)
    assert len({ask.hash for ask in transport.asks}) == 1
    assert [ask.streamed for ask in transport.asks] == [False, True, True]


def _blocks(answer: Any) -> list[Json]:
    """The stream helper adds `parsed_output` to texts."""
    return [block.model_dump(exclude={"parsed_output"}, exclude_none=True) for block in answer.content]


@pytest.mark.parametrize("block", _BETA_BLOCKS, ids=lambda block: block["type"])
def test_the_sdk_builds_the_same_beta_message_from_the_stream(block: Json) -> None:
    with client(Answering(message(block, TEXT))) as sdk:
        plain = sdk.beta.messages.create(**question())
        with sdk.beta.messages.stream(**question()) as stream:
            streamed = stream.get_final_message()
    assert streamed.model_dump(exclude={"content"}) == plain.model_dump(exclude={"content"})
    assert _blocks(streamed) == _blocks(plain)
    assert plain.content[0].type == block["type"]


def test_the_beta_interface_is_recognised_too_and_its_betas_are_part_of_the_question() -> None:
    transport = Answering(message(TEXT))
    with client(transport) as sdk:
        sdk.beta.messages.create(**question(betas=["b-2", "a-1"]))
        with sdk.beta.messages.stream(**question(betas=["a-1", "b-2"])) as stream:
            assert stream.get_final_message().content[0].type == "text"
        sdk.messages.create(**question())
    first, second, without = transport.asks
    assert first.hash == second.hash != without.hash
    assert first.headers["anthropic-beta"] == "a-1,b-2"
    assert not any("key-of-a-test" in value for value in first.headers.values())


class City(BaseModel):
    name: str
    people: int


def agent(transport: Answering, **more: Any) -> Agent[None, Any]:
    http = httpx2.AsyncClient(transport=transport, timeout=None)
    return Agent(AnthropicModel(MODEL, provider=AnthropicProvider(api_key="k", http_client=http)), **more)


@pytest.mark.parametrize("streamed", [False, True])
def test_pydantic_ai_runs_parallel_tools_and_gets_its_structured_output(streamed: bool) -> None:
    calls = message(THINKING, tool_use("twice", 1, of=2), tool_use("twice", 2, of=3), stop_reason="tool_use")
    result = message(tool_use("final_result", 3, name="Paris", people=2_100_000), stop_reason="tool_use")
    transport = Answering(calls, result)
    asking = agent(transport, output_type=City)
    seen: list[int] = []

    @asking.tool_plain
    def twice(of: int) -> int:
        seen.append(of)
        return 2 * of

    assert asyncio.run(_run(asking, streamed)) == City(name="Paris", people=2_100_000)
    assert sorted(seen) == [2, 3]
    assert ANTHROPIC.tools(transport.asks[0]) == ["twice", "final_result"]
    assert transport.asks[1].body["messages"][1]["content"][0]["signature"] == "c2lnbmVk"


async def _run(asking: Agent[None, Any], streamed: bool) -> Any:
    if not streamed:
        return (await asking.run("hi")).output
    async with asking.run_stream("hi") as result:
        return await result.get_output()


def test_pydantic_ai_asks_the_same_streamed_and_plain_and_counts_the_same_usage() -> None:
    transport = Answering(message(TEXT))
    plain = asyncio.run(agent(transport).run("hi", model_settings={"max_tokens": 100}))

    async def stream() -> Any:
        async with agent(transport).run_stream("hi", model_settings={"max_tokens": 100}) as result:
            assert await result.get_output() == TEXT["text"]
            return result.usage

    usage = asyncio.run(stream())
    assert (usage.input_tokens, usage.output_tokens) == (plain.usage.input_tokens, plain.usage.output_tokens)
    assert len({ask.hash for ask in transport.asks}) == 1


def _a(x: int) -> int:
    """Say it again."""
    return x


def test_langchain_gets_the_same_streamed_and_plain() -> None:
    transport = Answering(message(THINKING, TEXT, tool_use("_a", 1, x=1), stop_reason="tool_use"))
    chat = ChatAnthropic(model=MODEL, api_key="k", max_tokens=100)  # type: ignore[call-arg, arg-type]
    with client(transport) as sdk:
        chat.__dict__["_client"] = sdk
        plain = chat.bind_tools([_a]).invoke("hi")
        chunks: list[Any] = list(chat.bind_tools([_a]).stream("hi"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.text == plain.text == TEXT["text"]
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("_a", {"x": 1})]
    assert plain.usage_metadata is not None
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == plain.usage_metadata["total_tokens"]
    assert len({ask.hash for ask in transport.asks}) == 1


@settings(max_examples=40, deadline=None)
@given(text=st.text(), thought=st.text(), argument=st.text())
def test_any_text_survives_the_stream(text: str, thought: str, argument: str) -> None:
    blocks = [{**THINKING, "thinking": thought}, {"type": "text", "text": text}, tool_use("a", 1, x=argument)]
    with client(Answering(message(*blocks))) as sdk, sdk.messages.stream(**question()) as stream:
        first, second, third = stream.get_final_message().content
    assert (first.thinking, second.text, third.input) == (thought, text, {"x": argument})  # type: ignore[union-attr]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (413, anthropic.RequestTooLargeError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.OverloadedError),
    ],
)
def test_an_error_becomes_the_exception_of_the_sdk_and_is_not_tried_again(
    status: int, raised: type[anthropic.APIStatusError], streamed: bool
) -> None:
    transport = Answering(ANTHROPIC.error("messages", status, "that is why", "why"), status=status)
    with client(transport) as sdk, pytest.raises(raised, match="that is why"):
        sdk.messages.create(**question(stream=streamed))
    assert len(transport.asks) == 1


async def _ask_async(transport: Answering) -> str:
    http = anthropic.DefaultAsyncHttpxClient(transport=transport)
    async with AsyncAnthropic(api_key="k", http_client=http) as sdk, sdk.messages.stream(**question()) as stream:
        return await stream.get_final_text()


def test_the_async_sdk_streams() -> None:
    assert asyncio.run(_ask_async(Answering(message(TEXT)))) == TEXT["text"]


@pytest.mark.parametrize(
    ("url", "base_url"),
    [
        (URL, "https://api.anthropic.com"),
        (URL + "?beta=true", "https://api.anthropic.com"),
        ("http://127.0.0.1:9/stub/v1/messages/", "http://127.0.0.1:9/stub"),
    ],
)
def test_it_is_recognised_on_any_host(url: str, base_url: str) -> None:
    ask = asked(url, question(), x_api_key="secret", anthropic_version="2026-10-21", user_agent="x")
    assert (ask.provider, ask.endpoint, ask.base_url, ask.path) == ("anthropic", "messages", base_url, "/v1/messages")
    assert ask.headers == {"anthropic-version": "2026-10-21"}
    assert ask.model == MODEL


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("GET", URL, {}, b""),
        post("https://api.anthropic.com/v1/messages/count_tokens", question()),
        post("https://api.openai.com/v1/threads/t/messages", {}),
    ],
)
def test_what_asks_no_model_is_left_alone(request_: HttpRequest) -> None:
    assert recognise(request_) is None


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"model": ""}', b'{"model": NaN}', b"\xff", b'{"a":' * 100_000])
def test_what_cannot_be_carried_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        recognise(HttpRequest("POST", URL, {}, body))


def test_a_message_thread_is_refused_as_the_sdk_understands_it() -> None:
    with pytest.raises(Uncarried, match="continue_unthreaded") as caught:
        recognise(post(URL, question(thread={"type": "create"})))
    assert caught.value.answer["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert asked(URL, question(thread=None)).provider == "anthropic"


def test_a_batch_of_its_own_is_refused() -> None:
    with pytest.raises(Invalid, match="batch"):
        recognise(post(URL + "/batches", {"requests": []}))


def test_the_key_is_found_and_sent() -> None:
    assert ANTHROPIC.sent_key({"x-api-key": "a"}) == "a"
    assert ANTHROPIC.sent_key({"authorization": "Bearer b"}) == "b"
    assert ANTHROPIC.sent_key({"authorization": "Basic b"}) is None
    for key in ("sk-ant-api-1", "sk-ant-oat-1"):
        assert ANTHROPIC.sent_key(ANTHROPIC.auth_headers(key)) == key


def test_limits_and_models_are_set_without_touching_the_ask() -> None:
    ask = asked(URL, question())
    before = ask.hash
    assert ANTHROPIC.output_limit(ask) == 100
    assert ANTHROPIC.limited(ask, 7)["max_tokens"] == 7
    other = ANTHROPIC.with_model(ask, "claude-sonnet-5")
    assert (other.model, other.body["model"]) == ("claude-sonnet-5", "claude-sonnet-5")
    assert ask.hash == before != other.hash


@pytest.mark.parametrize(
    ("status", "message_", "code", "trouble"),
    [
        (400, "max_tokens: too large", "", "invalid"),
        (400, "Your credit balance is too low to access the API", "", "spend"),
        (400, "on hold", "organization_on_hold", "spend"),
        (400, "Output blocked by content filtering policy", "", "policy"),
        (401, "invalid x-api-key", "", "credentials"),
        (402, "billing", "", "spend"),
        (403, "not allowed", "", "credentials"),
        (404, "model: x", "", "invalid"),
        (413, "too large", "", "invalid"),
        (429, "slow down", "", "rate"),
        (429, "ramp", "ramp_limit_exceeded", "rate"),
        (429, "limit", "enforced_spend_limit_reached", "spend"),
        (500, "", "", "overload"),
        (529, "", "", "overload"),
    ],
)
def test_troubles_are_told_apart(status: int, message_: str, code: str, trouble: str) -> None:
    assert ANTHROPIC.trouble(status, ANTHROPIC.error("messages", status, message_, code)) == trouble


@pytest.mark.parametrize("body", [None, "text", [], {"error": "words"}])
def test_an_error_in_an_unknown_form_is_still_told_apart(body: Json) -> None:
    assert ANTHROPIC.trouble(503, body) == "overload"


def test_rate_limits_are_read_from_the_headers() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-20T01:00:30Z",
        "anthropic-ratelimit-output-tokens-limit": "8000",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "not a time",
    }
    requests, output = ANTHROPIC.learned(headers, NOW)
    assert (requests.dimension, requests.limit, requests.remaining, requests.resets_in) == ("requests", 50, 49, 30)
    assert (output.dimension, output.remaining, output.resets_in) == ("output_tokens", 0, None)
    # By the other side's clock, where it tells the time.
    there = ANTHROPIC.learned(headers | {"date": "Fri, 20 Nov 2026 01:00:20 GMT"}, NOW)
    assert there[0].resets_in == 10


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 01:01:00 GMT"}, 60),
        ({"retry-after": "Fri, 20 Nov 2026 00:00:00 GMT"}, 0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, None),
    ],
)
def test_when_to_come_back_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
