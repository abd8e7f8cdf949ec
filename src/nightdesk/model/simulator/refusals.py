"""Refusals in the words of each provider."""

import math
from typing import Any

from nightdesk.canonical import Json

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI_TYPES = {401: "invalid_request_error", 403: "permission_error", 429: "requests"}
_GEMINI_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 429: 8, 500: 13, 503: 14, 504: 4}
_PLAIN = {
    400: "The request is not valid.",
    401: "The API key is missing or not valid.",
    403: "The API key may not do this.",
    404: "There is no such thing.",
    413: "The request is too large.",
    429: "The rate limit is reached.",
    500: "Internal server error.",
    503: "The service is unavailable.",
    504: "The request took too long.",
    529: "Overloaded.",
}


class Refusal(Exception):
    """The request is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str = "",
        code: str = "",
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.message = message or _PLAIN.get(status, "The request failed.")
        self.code = code
        self.retry_after = retry_after
        self.headers = {**(headers or {}), **_come_again(retry_after)}
        super().__init__(self.message)


def _come_again(seconds: float | None) -> dict[str, str]:
    """Whole seconds, as HTTP wants them, and the finer header that the SDKs look at first."""
    if seconds is None:
        return {}
    return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(math.ceil(seconds * 1000))}


def error_body(provider: str, refusal: Refusal) -> dict[str, Json]:
    return {"anthropic": _anthropic, "openai": _openai, "gemini": _gemini}[provider](refusal)


def rpc_status(refusal: Refusal) -> dict[str, Json]:
    """The google.rpc.Status with which Gemini reports an item of a batch."""
    return {"code": _RPC_CODES.get(refusal.status, 13), "message": refusal.message}


def bad_key(provider: str) -> Refusal:
    if provider == "anthropic":
        return Refusal(401, "invalid x-api-key")
    if provider == "openai":
        return Refusal(401, "Incorrect API key provided.", "invalid_api_key")
    return Refusal(400, "API key not valid. Please pass a valid API key.", "API_KEY_INVALID")


def spend_stop(provider: str) -> Refusal:
    if provider == "anthropic":
        return Refusal(400, "Your credit balance is too low to access the Anthropic API.")
    if provider == "openai":
        return Refusal(429, "You exceeded your current quota, please check your billing.", "insufficient_quota")
    return Refusal(429, "Your prepayment credits are depleted. Please manage your project and its billing.")


def _anthropic(refusal: Refusal) -> dict[str, Json]:
    other = "api_error" if refusal.status >= 500 else "invalid_request_error"
    error = {"type": _ANTHROPIC_TYPES.get(refusal.status, other), "message": refusal.message}
    if refusal.code:
        error["details"] = {"error_code": refusal.code}  # type: ignore[assignment]
    return {"type": "error", "error": error, "request_id": "req_simulated"}


def _openai(refusal: Refusal) -> dict[str, Json]:
    kind = "server_error" if refusal.status >= 500 else _OPENAI_TYPES.get(refusal.status, "invalid_request_error")
    if refusal.code == "insufficient_quota":
        kind = refusal.code
    code = refusal.code or ("rate_limit_exceeded" if refusal.status == 429 else None)
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": code}}


def _gemini(refusal: Refusal) -> dict[str, Json]:
    state = _GEMINI_STATES.get(refusal.status, "INTERNAL" if refusal.status >= 500 else "FAILED_PRECONDITION")
    details: list[dict[str, Any]] = []
    if refusal.code:
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.code})
    if refusal.retry_after is not None:
        retry = f"{refusal.retry_after:g}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry})
    return {"error": {"code": refusal.status, "message": refusal.message, "status": state, "details": details}}
