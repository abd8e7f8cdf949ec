"""The wire protocol of Anthropic's Messages API."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import NoReturn

from nightdesk.canonical import Json
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers import headers as answered
from nightdesk.model.providers.anthropic_stream import events_of
from nightdesk.model.providers.base import Learned, Trouble, Uncarried
from nightdesk.model.providers.wire import (
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

_MESSAGES = re.compile(r"/v1/messages$")
_BATCHES = re.compile(r"/v1/messages/batches$")
_HEADERS = ("anthropic-version", "anthropic-workspace-id", "anthropic-user-profile-id")
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SPEND_CODES = {"enforced_spend_limit_reached", "organization_on_hold"}


class Anthropic:
    name = "anthropic"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    url_variable = "ANTHROPIC_BASE_URL"
    default_url = "https://api.anthropic.com"
    has_flex = False

    def recognise(self, request: HttpRequest) -> Ask | None:
        if place(request, _BATCHES) is not None:
            refuse_own_batch()
        # The query is left out: older SDKs say ?beta=true, which the beta header says anyway.
        found = place(request, _MESSAGES)
        if found is None:
            return None
        body = body_of(request)
        if body.get("thread"):
            self._refuse_thread()
        streamed = body.pop("stream", False) is True
        headers = picked(request.headers, _HEADERS) | _betas(request.headers)
        return Ask(self.name, "messages", found.base_url, found.path, model_in(body), body, headers, streamed)

    def _refuse_thread(self) -> NoReturn:
        """The provider holds a thread for an hour, and knows none in batches. The SDK's tool runner, which makes one by
        itself, goes on without when it hears this; others are told what to do."""
        problem = "The request is part of a message thread, which would be gone before a batch or a night is over."
        step = 'Send the whole conversation, or give the thread unsupported_request_behavior="continue_unthreaded".'
        answer = self.error("messages", 400, f"{problem} {step}", "thread_unsupported_request")
        raise Uncarried(problem, step, answer)

    def sent_key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-api-key") or bearer(headers)

    def auth_headers(self, key: str) -> dict[str, str]:
        """API keys in the header that every API version takes; OAuth tokens are only taken as bearers."""
        return {"authorization": f"Bearer {key}"} if key.startswith("sk-ant-oat") else {"x-api-key": key}

    def output_limit(self, ask: Ask) -> int | None:
        return whole(ask.body.get("max_tokens"))

    def limited(self, ask: Ask, tokens: int) -> dict[str, Json]:
        return {**ask.body, "max_tokens": tokens}

    def with_model(self, ask: Ask, model: str) -> Ask:
        return replace(ask, model=model, body={**ask.body, "model": model})

    def flexed(self, body: dict[str, Json]) -> dict[str, Json]:
        return body

    def tools(self, ask: Ask) -> list[str]:
        return [str(tool.get("name") or tool.get("type") or "") for tool in objects(ask.body.get("tools"))]

    def completed(self, ask: Ask, answer: Json) -> Json:
        return answer

    def error(self, endpoint: str, status: int, message: str, code: str = "") -> Json:
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        inner: dict[str, Json] = {"type": kind, "message": message}
        if code:
            inner["details"] = {"error_code": code}
        return {"type": "error", "error": inner, "request_id": None}

    def trouble(self, status: int, body: Json) -> Trouble:
        message = str(at(body, "error", "message") or "").lower()
        if status == 402 or at(body, "error", "details", "error_code") in _SPEND_CODES:
            return "spend"
        # This one comes as a plain 400, and only its words tell it.
        if "credit balance is too low" in message:
            return "spend"
        if status in (401, 403):
            return "credentials"
        if status == 429:
            return "rate"
        if status in (408, 409) or status >= 500:
            return "overload"
        return "policy" if "content filtering policy" in message else "invalid"

    def stream(self, ask: Ask, answer: Json) -> bytes:
        return named_events(events_of(answer))

    def learned(self, headers: Mapping[str, str], now: datetime) -> list[Learned]:
        kinds: tuple[answered.Dimension, ...] = ("requests", "input_tokens", "output_tokens")
        return [known for kind in kinds for known in _learned(headers, kind, now)]


def _learned(headers: Mapping[str, str], dimension: answered.Dimension, now: datetime) -> list[Learned]:
    start = f"anthropic-ratelimit-{dimension.replace('_', '-')}"
    resets_in = answered.resets_at(headers, f"{start}-reset", now)
    return answered.learned(headers, dimension, f"{start}-limit", f"{start}-remaining", resets_in)


def _betas(headers: Mapping[str, str]) -> dict[str, str]:
    """The betas in one order, as their order means nothing."""
    named = {beta.strip() for beta in headers.get("anthropic-beta", "").split(",")} - {""}
    return {"anthropic-beta": ",".join(sorted(named))} if named else {}
