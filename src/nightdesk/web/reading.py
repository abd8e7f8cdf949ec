"""From a request to what an endpoint works with: its JSON body as a model, its Idempotency-Key."""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio.to_thread
from fastapi import Request
from pydantic import ValidationError

from nightdesk.canonical import Json
from nightdesk.playbook.faults import dotted, found_by_pydantic
from nightdesk.web.body import parse_json
from nightdesk.web.context import WebContext
from nightdesk.web.problems import Problem, invalid
from nightdesk.web.schemas import IDEMPOTENCY_KEY, RequestBody

M = TypeVar("M", bound=RequestBody)

_SMALL = 16_384  # smaller bodies are parsed faster than they are handed to a thread
_KEY = re.compile(IDEMPOTENCY_KEY)


def body_of(model: type[M], *, optional: bool = False) -> Callable[..., Awaitable[M]]:
    """A dependency: the request's body as the model. An optional body may be empty."""

    async def read(request: Request, web: WebContext) -> M:
        if optional and not await _has_body(request):
            return model()
        _check_media_type(request)
        raw = await request.body()
        max_depth = web.house.settings.api.max_depth
        value = (
            await anyio.to_thread.run_sync(parse_json, raw, max_depth)
            if len(raw) > _SMALL
            else parse_json(raw, max_depth)
        )
        return _fitted(model, value)

    return read


async def _has_body(request: Request) -> bool:
    return "content-type" in request.headers or bool(await request.body())


def _check_media_type(request: Request) -> None:
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise Problem(415, "unsupported-media-type", f"The body is coded as {coding[:50]}.", "Send it as it is.")
    media, *parameters = (part.strip().lower() for part in request.headers.get("content-type", "").split(";"))
    charsets = [part.partition("=")[2].strip('"') for part in parameters if part.startswith("charset=")]
    if media != "application/json" or any(charset != "utf-8" for charset in charsets):
        raise Problem(
            415,
            "unsupported-media-type",
            "The body is not said to be JSON in UTF-8.",
            "Send: Content-Type: application/json",
        )


def _fitted(model: type[M], value: Json) -> M:
    if not isinstance(value, dict):
        raise invalid([("", "must be an object")])
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid([(dotted(path), fault) for path, fault in found_by_pydantic(error, model, "field")]) from None


async def idempotency_key(request: Request, web: WebContext) -> str | None:
    """The key, quoted as a structured field or bare; None if there is none and none is required."""
    sent = request.headers.getlist("idempotency-key")
    if not sent and not web.house.settings.api.require_idempotency_key:
        return None
    if not sent:
        raise _bad_key("The header Idempotency-Key is missing.")
    if len(sent) > 1 or not _KEY.fullmatch(sent[0]):
        raise _bad_key("The header Idempotency-Key is not one key of 1 to 255 printable ASCII characters.")
    key = sent[0]
    return re.sub(r"\\(.)", r"\1", key[1:-1]) if key.startswith('"') else key


def _bad_key(detail: str) -> Problem:
    example = 'Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"'
    return Problem(400, "idempotency-key", detail, f"Send a fresh one with each new task, as in {example}")
