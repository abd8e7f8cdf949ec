"""The wire protocol of OpenAI: chat completions and responses, also as spoken by those who copy it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers import headers as answered
from nightdesk.model.providers.base import Learned, Trouble
from nightdesk.model.providers.openai_chat_stream import chat_stream
from nightdesk.model.providers.openai_responses_stream import response_events
from nightdesk.model.providers.wire import (
    Place,
    at,
    bearer,
    body_of,
    model_in,
    named_events,
    objects,
    picked,
    place,
    refuse_own_batch,
    whole,
)

_ENDPOINTS = {"/chat/completions": "chat", "/responses": "responses"}
_ASKING = re.compile(r"/chat/completions$|/responses$")
_BATCHES = re.compile(r"/batches$")
_HEADERS = ("openai-organization", "openai-project", "openai-beta")
_SPEND_CODES = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "account_deactivated",
    "quota_exceeded",
}
_POLICY_CODES = {"content_filter", "content_policy_violation", "invalid_prompt", "responsibleaipolicyviolation"}
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class OpenAI:
    name = "openai"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    url_variable = "OPENAI_BASE_URL"
    default_url = "https://api.openai.com/v1"
    has_flex = True

    def recognise(self, request: HttpRequest) -> Ask | None:
        _refuse_websocket(request)
        found = place(request, _ASKING)
        if found is None:
            _refuse_batch(request)
            return None
        body = body_of(request)
        if body.get("background"):
            raise Invalid(
                "The request asks to be answered in the background, by an answer that only its id would lead to.",
                [],
                "Leave `background` out: a task may wait for hours without it.",
            )
        return self._ask(request, found, body)

    def _ask(self, request: HttpRequest, found: Place, body: dict[str, Json]) -> Ask:
        streamed = body.pop("stream", False) is True
        with_usage = bool(at(body.pop("stream_options", None), "include_usage"))
        return Ask(
            provider=self.name,
            endpoint=_ENDPOINTS[found.path],
            base_url=found.base_url,
            path=f"{found.path}?{found.query}" if found.query else found.path,
            model=model_in(body),
            body=body,
            headers=picked(request.headers, _HEADERS),
            streamed=streamed,
            stream_usage=streamed and with_usage,
        )

    def sent_key(self, headers: Mapping[str, str]) -> str | None:
        return bearer(headers) or headers.get("api-key")

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def output_limit(self, ask: Ask) -> int | None:
        limits = [limit for key in _limit_keys(ask) if (limit := whole(ask.body.get(key))) is not None]
        return min(limits) * _answers(ask) if limits else None

    def limited(self, ask: Ask, tokens: int) -> dict[str, Json]:
        stated = [key for key in _limit_keys(ask) if key in ask.body]
        return {**ask.body, (stated or _limit_keys(ask))[0]: max(1, tokens // _answers(ask))}

    def with_model(self, ask: Ask, model: str) -> Ask:
        return replace(ask, model=model, body={**ask.body, "model": model})

    def flexed(self, body: dict[str, Json]) -> dict[str, Json]:
        return {**body, "service_tier": "flex"}

    def tools(self, ask: Ask) -> list[str]:
        functions = [str(function.get("name") or "") for function in objects(ask.body.get("functions"))]
        return functions + [_tool_name(tool) for tool in objects(ask.body.get("tools"))]

    def completed(self, ask: Ask, answer: Json) -> Json:
        return answer

    def error(self, endpoint: str, status: int, message: str, code: str = "") -> Json:
        kind = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}

    def trouble(self, status: int, body: Json) -> Trouble:
        codes = {str(at(body, "error", key) or "").lower() for key in ("code", "type")}
        if status == 402 or codes & _SPEND_CODES:
            return "spend"
        if codes & _POLICY_CODES:
            return "policy"
        if status in (401, 403):
            return "credentials"
        # How the flex lane says that it has no room; the limits of the account are not meant.
        if status == 429:
            return "overload" if "resource_unavailable" in codes else "rate"
        return "overload" if status in (408, 409) or status >= 500 else "invalid"

    def stream(self, ask: Ask, answer: Json) -> bytes:
        if ask.endpoint == "chat":
            return chat_stream(answer, ask.stream_usage)
        return named_events(response_events(answer))

    def learned(self, headers: Mapping[str, str], now: datetime) -> list[Learned]:
        """OpenAI counts input and output tokens against one limit."""
        return _learned(headers, "requests", "requests") + _learned(headers, "input_tokens", "tokens")


def _learned(headers: Mapping[str, str], dimension: answered.Dimension, name: str) -> list[Learned]:
    resets_in = answered.resets_after(headers, f"x-ratelimit-reset-{name}")
    limit, remaining = f"x-ratelimit-limit-{name}", f"x-ratelimit-remaining-{name}"
    return answered.learned(headers, dimension, limit, remaining, resets_in)


def _limit_keys(ask: Ask) -> tuple[str, ...]:
    """`max_tokens` is what chat models were limited by before they reasoned; others than OpenAI know only that."""
    return ("max_output_tokens",) if ask.endpoint == "responses" else ("max_completion_tokens", "max_tokens")


def _answers(ask: Ask) -> int:
    return whole(ask.body.get("n")) or 1


def _tool_name(tool: dict[str, Json]) -> str:
    return str(tool.get("name") or at(tool, str(tool.get("type")), "name") or tool.get("type") or "")


def _refuse_websocket(request: HttpRequest) -> None:
    path = urlsplit(request.url).path
    if request.headers.get("upgrade", "").lower() == "websocket" and _ASKING.search(path.rstrip("/")):
        raise Invalid(
            "The request opens a websocket, on which calls could not be kept apart.", [], "Use the SDK over HTTP."
        )


def _refuse_batch(request: HttpRequest) -> None:
    """Other APIs have a path that ends like this, so the body is looked at too."""
    if place(request, _BATCHES) is not None and b'"input_file_id"' in request.body:
        refuse_own_batch()
