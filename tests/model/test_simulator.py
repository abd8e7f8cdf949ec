"""The official SDKs talk to the simulator as to their providers: live, streamed, with tools and with schemas."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors, types
from pydantic import BaseModel

from nightdesk.canonical import Json
from nightdesk.clock import SystemClock
from nightdesk.model import prices
from nightdesk.model.simulator import Behaviour
from tests.model.sdks import CLAUDE, GEMINI, GPT, Desk, at_desk

PROMPT = "Rewrite this: a blue mug of stoneware, for tea."
MARK = "[simulated]"


class Listing(BaseModel):
    title: str
    bullets: list[str]
    price: float


SCHEMA = {**Listing.model_json_schema(), "additionalProperties": False}
WEATHER = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Desk]:
    with at_desk() as desk:
        yield desk


@pytest.fixture
def desk(shared: Desk) -> Desk:
    shared.simulator.meter.clear()
    return shared


def _messages(desk: Desk, prompt: str, **more: Any) -> str:
    said: Any = [{"role": "user", "content": prompt}]
    told = desk.anthropic.messages.create(model=CLAUDE, max_tokens=500, messages=said, **more)
    assert told.stop_reason == "end_turn"
    return "".join(block.text for block in told.content if block.type == "text")


def _messages_streamed(desk: Desk, prompt: str) -> str:
    said: Any = [{"role": "user", "content": prompt}]
    with desk.anthropic.messages.stream(model=CLAUDE, max_tokens=500, messages=said) as stream:
        texts = list(stream.text_stream)
        assert stream.get_final_message().usage.output_tokens > 1
    assert len(texts) > 1
    return "".join(texts)


def _chat(desk: Desk, prompt: str, **more: Any) -> str:
    told = desk.openai.chat.completions.create(model=GPT, messages=[{"role": "user", "content": prompt}], **more)
    return told.choices[0].message.content or ""


def _chat_streamed(desk: Desk, prompt: str) -> str:
    said: Any = [{"role": "user", "content": prompt}]
    with desk.openai.chat.completions.create(
        model=GPT, messages=said, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert chunks[-1].usage is not None
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _responses(desk: Desk, prompt: str, **more: Any) -> str:
    return str(desk.openai.responses.create(model=GPT, input=prompt, **more).output_text)


def _responses_streamed(desk: Desk, prompt: str) -> str:
    with desk.openai.responses.stream(model=GPT, input=prompt) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == "".join(texts)
    return "".join(texts)


def _generate(desk: Desk, prompt: str, **more: Any) -> str:
    config = types.GenerateContentConfig(**more)
    return desk.gemini.models.generate_content(model=GEMINI, contents=prompt, config=config).text or ""


def _generate_streamed(desk: Desk, prompt: str) -> str:
    config = types.GenerateContentConfig()
    chunks = list(desk.gemini.models.generate_content_stream(model=GEMINI, contents=prompt, config=config))
    assert len(chunks) > 1
    return "".join(chunk.text or "" for chunk in chunks)


_PAIRS = [
    (_messages, _messages_streamed),
    (_chat, _chat_streamed),
    (_responses, _responses_streamed),
    (_generate, _generate_streamed),
]
Asks = Callable[[Desk, str], str]


@pytest.mark.parametrize(("plain", "streamed"), _PAIRS, ids=["messages", "chat", "responses", "generate"])
def test_an_answer_is_marked_extractive_and_the_same_streamed_and_again(
    desk: Desk, plain: Asks, streamed: Asks
) -> None:
    text = plain(desk, PROMPT)
    assert text.startswith(MARK)
    assert set(text.removeprefix(MARK).split()) <= set(
        PROMPT.replace(":", "").replace(",", "").replace(".", "").split()
    )
    assert plain(desk, PROMPT) == streamed(desk, PROMPT) == text
    assert plain(desk, PROMPT + " Now for coffee.") != text
    meter = desk.meter()
    assert (meter["executions"], meter["repeated"]) == (4, 2)


def test_the_answer_says_in_its_headers_too_that_it_is_simulated(desk: Desk) -> None:
    answer = desk.anthropic.messages.with_raw_response.create(
        model=CLAUDE, max_tokens=10, messages=[{"role": "user", "content": "hi"}]
    )
    assert answer.headers["x-simulated"] == "true"


def _format(**more: Json) -> Json:
    return {"type": "json_schema", "name": "listing", "schema": SCHEMA, **more}


_WITH_SCHEMA: dict[str, Asks] = {
    "messages": lambda desk, prompt: _messages(
        desk, prompt, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}
    ),
    "chat": lambda desk, prompt: _chat(
        desk, prompt, response_format={"type": "json_schema", "json_schema": _format(strict=True)}
    ),
    "responses": lambda desk, prompt: _responses(desk, prompt, text={"format": _format(strict=True)}),
    "generate": lambda desk, prompt: _generate(
        desk, prompt, response_mime_type="application/json", response_json_schema=SCHEMA
    ),
    "generate by type": lambda desk, prompt: _generate(
        desk, prompt, response_mime_type="application/json", response_schema=Listing
    ),
}


@pytest.mark.parametrize("ask", _WITH_SCHEMA.values(), ids=_WITH_SCHEMA)
def test_the_answer_obeys_the_schema_and_takes_what_the_prompt_says(desk: Desk, ask: Asks) -> None:
    made = Listing.model_validate_json(ask(desk, f"{PROMPT}\ntitle: Blue mug\nprice: 12.5"))
    assert made.title == f"{MARK} Blue mug"
    assert made.price == 12.5
    assert made.bullets


def test_the_parsing_helpers_of_the_sdks_get_what_they_want(desk: Desk) -> None:
    said: Any = [{"role": "user", "content": PROMPT}]
    chat = desk.openai.chat.completions.parse(model=GPT, messages=said, response_format=Listing)
    assert isinstance(chat.choices[0].message.parsed, Listing)
    assert isinstance(desk.openai.responses.parse(model=GPT, input=PROMPT, text_format=Listing).output_parsed, Listing)
    message = desk.anthropic.messages.parse(model=CLAUDE, max_tokens=500, messages=said, output_format=Listing)
    assert isinstance(message.parsed_output, Listing)


def test_anthropic_calls_a_tool_and_then_answers_from_what_it_said(desk: Desk) -> None:
    tools: Any = [{"name": "weather", "input_schema": WEATHER}]
    said: Any = [{"role": "user", "content": "How is it? town: Lund"}]
    with desk.anthropic.messages.stream(model=CLAUDE, max_tokens=500, messages=said, tools=tools) as stream:
        first = stream.get_final_message()
    [call] = first.content
    assert call.type == "tool_use"
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "weather", {"town": "Lund"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sleet"}
    said += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = desk.anthropic.messages.create(model=CLAUDE, max_tokens=500, messages=said, tools=tools)
    assert second.stop_reason == "end_turn"
    assert second.content[0].type == "text"
    assert "sleet" in second.content[0].text


def test_a_chat_calls_as_many_tools_beside_each_other_as_its_script_says(desk: Desk) -> None:
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    said: Any = [{"role": "user", "content": 'in Lund Malmö Ystad sim:{"parallel": 2}'}]
    plain = desk.openai.chat.completions.create(model=GPT, messages=said, tools=tools).choices[0]
    with desk.openai.chat.completions.stream(model=GPT, messages=said, tools=tools) as stream:
        streamed = stream.get_final_completion().choices[0]
    calls = [call.function.arguments for call in plain.message.tool_calls or [] if call.type == "function"]
    assert plain.finish_reason == streamed.finish_reason == "tool_calls"
    assert [call.function.arguments for call in streamed.message.tool_calls or []] == calls
    assert len(set(calls)) == 2
    said += [plain.message, *({"role": "tool", "tool_call_id": call.id, "content": "sleet"}
             for call in plain.message.tool_calls or [])]  # fmt: skip
    after = desk.openai.chat.completions.create(model=GPT, messages=said, tools=tools).choices[0]
    assert "sleet" in (after.message.content or "")


def test_responses_call_a_tool_too_and_must_if_it_is_required(desk: Desk) -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
    with desk.openai.responses.stream(model=GPT, input="town: Lund", tools=tools, tool_choice="required") as stream:
        [call] = stream.get_final_response().output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"town": "Lund"}
    said: Any = [{"role": "user", "content": "town: Lund"}, call]
    said.append({"type": "function_call_output", "call_id": call.call_id, "output": "sleet"})
    assert "sleet" in desk.openai.responses.create(model=GPT, input=said, tools=tools).output_text


def test_google_runs_the_function_by_itself(desk: Desk) -> None:
    asked: list[str] = []

    def weather(town: str) -> str:
        """How it is there."""
        asked.append(town)
        return "sleet"

    config = types.GenerateContentConfig(tools=[weather])
    answer = desk.gemini.models.generate_content(model=GEMINI, contents="town: Lund", config=config)
    assert asked == ["Lund"]
    assert "sleet" in (answer.text or "")
    assert desk.meter()["executions"] == 2


def test_as_many_answers_are_given_and_billed_as_are_wanted(desk: Desk) -> None:
    said: Any = [{"role": "user", "content": PROMPT}]
    chats = [desk.openai.chat.completions.create(model=GPT, messages=said, n=count) for count in (1, 3)]
    assert [[choice.index for choice in chat.choices] for chat in chats] == [[0], [0, 1, 2]]
    once, thrice = [chat.usage.completion_tokens for chat in chats if chat.usage]
    assert thrice == 3 * once
    config = types.GenerateContentConfig(candidate_count=2)
    generated = desk.gemini.models.generate_content(model=GEMINI, contents=PROMPT, config=config)
    assert [candidate.index for candidate in generated.candidates or ()] == [0, 1]
    chunks = desk.gemini.models.generate_content_stream(model=GEMINI, contents=PROMPT, config=config)
    assert {candidate.index for chunk in chunks for candidate in chunk.candidates or ()} == {0, 1}
    with pytest.raises(openai.BadRequestError, match="128"):
        desk.openai.chat.completions.create(model=GPT, messages=said, n=129)


def test_gemini_takes_names_in_both_spellings(desk: Desk) -> None:
    """As protocol buffers do, and as its own SDK mixes them."""
    items = {"type": "STRING", "max_length": 20}
    names = {"type": "ARRAY", "min_items": 3, "max_items": 3, "items": items}
    either = {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}]}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "not_mine: Lund"}]}],
        "generation_config": {
            "response_mime_type": "application/json",
            "response_schema": {"type": "OBJECT", "properties": {"many_names": names, "not_mine": either}},
        },
    }
    answer = desk.http.post("/v1beta/models/m:generateContent", json=body, headers=_KEYS["gemini"]).json()
    made = json.loads(answer["candidates"][0]["content"]["parts"][0]["text"])
    assert [len(name) <= 20 for name in made["many_names"]] == [True] * 3
    assert made["not_mine"] == "Lund"


def test_a_script_in_the_prompt_prescribes_the_answer(desk: Desk) -> None:
    assert _messages(desk, 'Write. sim:{"text":"as I say"}') == "as I say"
    assert _chat(desk, 'Write. sim:{"empty":true}') == ""
    assert len(_responses(desk, 'Write. sim:{"length":100}')) == 400
    wrong = _generate(desk, 'Write. sim:{"wrong_schema":true}', response_json_schema=SCHEMA)
    assert json.loads(wrong) == {"wrong": MARK}
    with pytest.raises(openai.InternalServerError):
        _chat(desk, 'Write. sim:{"status":503}')


@pytest.mark.parametrize("ids", [False, True])
def test_gemini_gives_its_calls_ids_if_the_script_wants_them(desk: Desk, ids: bool) -> None:
    config: Any = {"tools": [{"function_declarations": [{"name": "weather"}]}]}
    script = json.dumps({"turns": "forever", "parallel": 2, "ids": ids})
    answer = desk.gemini.models.generate_content(model=GEMINI, contents=f"How is it? sim:{script}", config=config)
    calls = answer.function_calls or []
    assert [(call.name, call.args) for call in calls] == [("weather", {})] * 2
    assert len({call.id for call in calls if call.id}) == 2 * ids


def test_no_conversation_is_held(desk: Desk) -> None:
    thread = desk.anthropic.beta.messages.thread(model=CLAUDE, max_tokens=50)
    with pytest.raises(anthropic.BadRequestError) as caught:
        thread.send({"role": "user", "content": "hi"})
    assert caught.value.body["error"]["details"]["error_code"] == "thread_unsupported_request"  # type: ignore[index]
    with pytest.raises(openai.BadRequestError) as missing:
        desk.openai.responses.create(model=GPT, input="hi", previous_response_id="resp_1")
    assert missing.value.code == "previous_response_not_found"


def test_no_more_is_written_than_the_request_allows(desk: Desk) -> None:
    said: Any = [{"role": "user", "content": PROMPT * 5}]
    message = desk.anthropic.messages.create(model=CLAUDE, max_tokens=3, messages=said)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 3)
    chat = desk.openai.chat.completions.create(model=GPT, messages=said, max_completion_tokens=3)
    assert chat.choices[0].finish_reason == "length"
    response = desk.openai.responses.create(model=GPT, input=PROMPT * 5, max_output_tokens=3)
    assert (response.status, response.incomplete_details and response.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )
    config = types.GenerateContentConfig(max_output_tokens=3)
    generated = desk.gemini.models.generate_content(model=GEMINI, contents=PROMPT * 5, config=config)
    assert generated.candidates is not None
    assert generated.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


def test_what_is_wrong_with_a_request_becomes_the_exception_of_the_sdk(desk: Desk) -> None:
    said: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        desk.anthropic.messages.create(model=CLAUDE, max_tokens=5, messages=said, extra_body={"temperature": 1})
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        desk.anthropic.messages.create(model=CLAUDE, max_tokens=-1, messages=said)
    with pytest.raises(openai.BadRequestError, match="messages"):
        desk.openai.chat.completions.create(model=GPT, messages=[])
    with pytest.raises(errors.ClientError, match="maxOutputTokens"):
        desk.gemini.models.generate_content(
            model=GEMINI, contents="hi", config=types.GenerateContentConfig(max_output_tokens=-1)
        )
    assert desk.meter()["executions"] == 0


@pytest.mark.parametrize("headers", [{"x-api-key": "k"}, {"authorization": "Bearer k"}])
@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
def test_both_ways_and_versions_of_anthropic_are_taken(desk: Desk, headers: dict[str, str], version: str) -> None:
    body = {"model": CLAUDE, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    sent = {**headers, "anthropic-version": version}
    assert desk.http.post("/v1/messages?beta=true", json=body, headers=sent).status_code == 200
    warm = desk.http.post("/v1/messages", json={**body, "temperature": 0.5}, headers=sent)
    assert warm.status_code == (200 if version == "2023-06-01" else 400)


def _long(words: int) -> str:
    return " ".join(f"word{number}" for number in range(words))


def _cached_message(desk: Desk, ttl: str) -> Json:
    system: Any = [{"type": "text", "text": _long(2000), "cache_control": {"type": "ephemeral", "ttl": ttl}}]
    said: Any = [{"role": "user", "content": "and now?"}]
    told = desk.anthropic.messages.create(model=CLAUDE, max_tokens=50, system=system, messages=said)
    return told.model_dump(mode="json")


_Billed = tuple[str, str, str, prices.Lane, Callable[[Desk], Any]]
_LANES: list[tuple[prices.Lane, Any, Any]] = [
    ("live", "default", types.ServiceTier.STANDARD),
    ("flex", "flex", types.ServiceTier.FLEX),
]


def _chat_in(desk: Desk, tier: Any) -> Any:
    said: Any = [{"role": "user", "content": _long(3000)}]
    return desk.openai.chat.completions.create(model=GPT, messages=said, service_tier=tier)


def _response_in(desk: Desk, tier: Any) -> Any:
    return desk.openai.responses.create(model=GPT, input=_long(3000), service_tier=tier)


def _content_in(desk: Desk, tier: Any) -> Any:
    config = types.GenerateContentConfig(service_tier=tier)
    return desk.gemini.models.generate_content(model=GEMINI, contents=_long(3000), config=config)


_BILLED: list[_Billed] = [
    ("anthropic", "messages", CLAUDE, "live", lambda desk: _cached_message(desk, "5m")),
    ("anthropic", "messages", CLAUDE, "live", lambda desk: _cached_message(desk, "1h")),
    *(("openai", "chat", GPT, lane, partial(_chat_in, tier=tier)) for lane, tier, _ in _LANES),
    *(("openai", "responses", GPT, lane, partial(_response_in, tier=tier)) for lane, tier, _ in _LANES),
    *(("google", "generate", GEMINI, lane, partial(_content_in, tier=tier)) for lane, _, tier in _LANES),
]


@pytest.mark.parametrize(("provider", "endpoint", "model", "lane", "ask"), _BILLED)
def test_the_bill_is_what_the_answers_say_that_was_used(
    provider: str, endpoint: str, model: str, lane: prices.Lane, ask: Callable[[Desk], Any]
) -> None:
    """Twice the same: the second time the prefix comes from the cache."""
    with at_desk() as desk:
        costs = [_cost(provider, endpoint, model, lane, ask(desk)) for _ in range(2)]
        meter = desk.meter(items=True)
    assert Decimal(str(meter["cost_usd"])) == sum(costs)
    assert costs[1] < costs[0]
    items: Any = meter["items"]
    [row] = items
    assert (row["lane"], row["count"]) == (lane, 2)
    assert row["cache_read_tokens"] > 1000


def _cost(provider: str, endpoint: str, model: str, lane: prices.Lane, answer: Any) -> Decimal:
    told = answer if isinstance(answer, dict) else answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    found = prices.cost(provider, model, prices.usage_of(endpoint, provider, told), lane, SystemClock().now().date())
    assert found
    return found


def test_latency_is_what_it_is_set_to() -> None:
    with at_desk(Behaviour(latency=0.2)) as desk:
        answer = desk.http.post("/v1/responses", json={"model": GPT, "input": "hi"}, headers=_BEARER)
    assert answer.elapsed.total_seconds() >= 0.2


_BEARER = {"authorization": "Bearer k"}
_KEYS = {
    "anthropic": {"x-api-key": "k", "anthropic-version": "2023-06-01"},
    "openai": _BEARER,
    "gemini": {"x-goog-api-key": "k"},
}
_PATHS = [
    ("anthropic", "/v1/messages"),
    ("anthropic", "/v1/messages/batches"),
    ("openai", "/v1/chat/completions"),
    ("openai", "/v1/responses"),
    ("openai", "/v1/batches"),
    ("openai", "/v1/files"),
    ("gemini", "/v1/models/m:generateContent"),
    ("gemini", "/v1beta/models/m:streamGenerateContent"),
    ("gemini", "/v1/models/m:batchGenerateContent"),
]


def _asking(**more: Json) -> Json:
    """The same question for every endpoint at once."""
    asked = {"role": "user", "content": "hi", "parts": [{"text": "hi"}]}
    return {"model": "m", "max_tokens": 10, "messages": [asked], "input": "hi", "contents": [asked], **more}


def _wanting(schema: Json) -> Json:
    return _asking(
        max_tokens=1_000_000,
        output_config={"format": {"type": "json_schema", "schema": schema}},
        text={"format": {"type": "json_schema", "name": "x", "schema": schema}},
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        generationConfig={"responseJsonSchema": schema},
    )


_CONVERSATIONS: list[Json] = [
    [], [5], [{}], [[]], {}, 5,
    [{"role": "user", "content": 5, "parts": 5}], [{"role": "user", "content": [5], "parts": [5]}],
]  # fmt: skip
_TOOLS: list[Json] = [5, [5], [{}], [{"type": "function", "name": "a", "functionDeclarations": 5}]]
_SCHEMAS: list[Json] = [
    {"allOf": [{"$ref": "#"}]},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"type": "array", "minItems": 10**12},
    {"type": "string", "minLength": 10**12},
    {"type": "nonsense"},
    {"enum": 5},
    {"type": "string", "pattern": "("},
    {"type": "string", "pattern": "(a{1000}){1000}"},
    {"type": "integer", "multipleOf": 0.5},
    {"type": "number", "minimum": 1e308, "maximum": -1e308},
    {"type": "object", "properties": 5},
    {"type": "object", "minProperties": 10**9},
]
_REQUESTS: list[Json] = [5, [5], [{}], [{"custom_id": "a", "params": 5}]]
_BATCHES: list[Json] = [5, {}, {"inputConfig": 5}, {"inputConfig": {"requests": {"requests": [5]}}}]
_RUBBISH: list[Json] = [
    *(b"", b"no", b"[]", b"null", b"\xff\xfe", b'{"a":' * 100_000, b'{"model": NaN}', b'{"model": "\\ud800"}', b"{}"),
    _asking(model=5),
    *(_asking(messages=said, input=said, contents=said) for said in _CONVERSATIONS),
    *(_asking(tools=tools) for tools in _TOOLS),
    _asking(tool_choice=5, toolConfig=5),
    _asking(system=5, instructions=5, systemInstruction=5),
    _asking(max_tokens=-1, max_output_tokens=-1, generationConfig={"maxOutputTokens": -1}),
    _asking(max_tokens="x", max_output_tokens=True, generationConfig=5),
    *(_wanting(schema) for schema in _SCHEMAS),
    *({"requests": rubbish} for rubbish in _REQUESTS),
    *({"batch": rubbish} for rubbish in _BATCHES),
    {"endpoint": 5},
    {"endpoint": "/v1/responses", "completion_window": "24h", "input_file_id": []},
]


@pytest.mark.parametrize(("provider", "path"), _PATHS, ids=lambda part: part)
def test_rubbish_is_refused_in_the_words_of_the_provider(desk: Desk, provider: str, path: str) -> None:
    for rubbish in _RUBBISH:
        body = rubbish if isinstance(rubbish, bytes) else json.dumps(rubbish).encode()
        answer = desk.http.post(path, content=body, headers=_KEYS[provider])
        assert answer.status_code < 500, (rubbish, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"]
    assert desk.http.get("/meter").status_code == 200


@pytest.mark.parametrize("provider", _KEYS)
def test_an_address_that_nobody_has_is_answered_in_the_words_of_the_provider(desk: Desk, provider: str) -> None:
    answers = [
        desk.http.get("/v1/nowhere", headers=_KEYS[provider]),
        desk.http.put("/v1/files", headers=_KEYS[provider]),
    ]
    assert [answer.status_code for answer in answers] == [404, 405]
    assert all(answer.json()["error"]["message"] for answer in answers)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(desk: Desk) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 1024 * 1024

    answer = desk.http.post("/v1/messages", content=pieces(), headers=_KEYS["anthropic"])
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


@pytest.mark.parametrize(("provider", "path"), _PATHS, ids=lambda part: part)
def test_without_a_key_nothing_is_done(desk: Desk, provider: str, path: str) -> None:
    answer = desk.http.post(path, json=_asking())
    assert answer.status_code == (400 if provider == "gemini" else 401)
    assert desk.meter()["executions"] == 0
