"""The addresses of all three providers on one server. Where two of them share one, the key's header decides."""

from collections.abc import Awaitable, Callable
from email.utils import formatdate

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nightdesk.model.simulator import (
    anthropic_batches,
    control,
    gemini_batches,
    gemini_files,
    live,
    openai_batches,
    openai_files,
)
from nightdesk.model.simulator.bodies import MISREAD
from nightdesk.model.simulator.refusals import Refusal, bad_key, error_body
from nightdesk.model.simulator.state import State

Handler = Callable[[State, Request], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]

_GOOGLE_KEY = "x-goog-api-key"
_GET, _POST, _DELETE = ["GET"], ["POST"], ["DELETE"]


def create_app(state: State) -> Starlette:
    return Starlette(
        routes=[*_live(state), *_anthropic(state), *_shared(state), *_openai(state), *_gemini(state), *_control(state)],
        exception_handlers={HTTPException: _no_such_address},
    )


def _live(state: State) -> list[Route]:
    """They come first, as each request is held against the routes one by one."""
    return [
        Route("/v1/messages", _of("anthropic", state, live.messages), methods=_POST),
        Route("/v1/messages/count_tokens", _of("anthropic", state, live.count_tokens), methods=_POST),
        Route("/v1/chat/completions", _of("openai", state, live.chat), methods=_POST),
        Route("/v1/responses", _of("openai", state, live.responses), methods=_POST),
        Route("/{version}/models/{model}:generateContent", _of("gemini", state, live.generate_content), methods=_POST),
        Route(
            "/{version}/models/{model}:streamGenerateContent",
            _of("gemini", state, live.stream_generate_content),
            methods=_POST,
        ),
        Route("/{version}/models/{model}:countTokens", _of("gemini", state, live.count_gemini_tokens), methods=_POST),
    ]


def _anthropic(state: State) -> list[Route]:
    batches = "/v1/messages/batches"
    return [
        Route(batches, _of("anthropic", state, anthropic_batches.create), methods=_POST),
        Route(batches, _of("anthropic", state, anthropic_batches.listed), methods=_GET),
        Route(f"{batches}/{{id}}", _of("anthropic", state, anthropic_batches.retrieve), methods=_GET),
        Route(f"{batches}/{{id}}", _of("anthropic", state, anthropic_batches.delete), methods=_DELETE),
        Route(f"{batches}/{{id}}/cancel", _of("anthropic", state, anthropic_batches.cancel), methods=_POST),
        Route(f"{batches}/{{id}}/results", _of("anthropic", state, anthropic_batches.results), methods=_GET),
    ]


def _shared(state: State) -> list[Route]:
    return [
        Route("/v1/batches", _either(state, openai_batches.listed, gemini_batches.listed), methods=_GET),
        Route("/v1/batches/{id}", _either(state, openai_batches.retrieve, gemini_batches.retrieve), methods=_GET),
        Route("/v1/files", _either(state, openai_files.listed, gemini_files.listed), methods=_GET),
        Route("/v1/files/{id}:download", _of("gemini", state, gemini_files.download), methods=_GET),
        Route("/v1/files/{id}", _either(state, openai_files.retrieve, gemini_files.retrieve), methods=_GET),
        Route("/v1/files/{id}", _either(state, openai_files.delete, gemini_files.delete), methods=_DELETE),
    ]


def _openai(state: State) -> list[Route]:
    return [
        Route("/v1/files", _of("openai", state, openai_files.upload), methods=_POST),
        Route("/v1/files/{id}/content", _of("openai", state, openai_files.content), methods=_GET),
        Route("/v1/batches", _of("openai", state, openai_batches.create), methods=_POST),
        Route("/v1/batches/{id}/cancel", _of("openai", state, openai_batches.cancel), methods=_POST),
    ]


def _gemini(state: State) -> list[Route]:
    create = _of("gemini", state, gemini_batches.create)
    return [
        Route("/{version}/models/{model}:batchGenerateContent", create, methods=_POST),
        Route("/{version}/batches/{id}:cancel", _of("gemini", state, gemini_batches.cancel), methods=_POST),
        Route("/{version}/batches/{id}", _of("gemini", state, gemini_batches.delete), methods=_DELETE),
        Route("/upload/{version}/files", _of("gemini", state, gemini_files.begin), methods=_POST),
        Route("/upload/{version}/files/{id}", _of("gemini", state, gemini_files.receive, keyed=False), methods=_POST),
        Route("/v1beta/batches", _of("gemini", state, gemini_batches.listed), methods=_GET),
        Route("/v1beta/batches/{id}", _of("gemini", state, gemini_batches.retrieve), methods=_GET),
        Route("/v1beta/files", _of("gemini", state, gemini_files.listed), methods=_GET),
        Route("/v1beta/files/{id}:download", _of("gemini", state, gemini_files.download), methods=_GET),
        Route("/v1beta/files/{id}", _of("gemini", state, gemini_files.retrieve), methods=_GET),
        Route("/v1beta/files/{id}", _of("gemini", state, gemini_files.delete), methods=_DELETE),
    ]


def _control(state: State) -> list[Route]:
    return [
        Route("/control", _plain(state, control.show), methods=_GET),
        Route("/control", _plain(state, control.change), methods=_POST),
        Route("/meter", _plain(state, control.meter), methods=_GET),
    ]


def _of(provider: str, state: State, handler: Handler, keyed: bool = True) -> Endpoint:
    """The handler behind the check of the key, with refusals in the provider's words.

    The address that pieces of a file are sent to is secret itself; the SDK sends no key there."""

    async def endpoint(request: Request) -> Response:
        try:
            if (keyed and not _has_key(provider, request)) or state.faults.take("auth", provider):
                raise bad_key(provider)
            response = await handler(state, request)
        except Refusal as refusal:
            response = _told(provider, refusal)
        except MISREAD as error:
            response = _told(provider, Refusal(400, f"The request cannot be understood: {error!r}"))
        response.headers["x-simulated"] = "true"
        response.headers["date"] = formatdate(state.now(), usegmt=True)
        return response

    return endpoint


def _told(provider: str, refusal: Refusal) -> Response:
    return JSONResponse(error_body(provider, refusal), refusal.status, headers=refusal.headers)


async def _no_such_address(request: Request, error: Exception) -> Response:
    """In the words of the provider that is most likely meant."""
    assert isinstance(error, HTTPException)
    claude = "anthropic-version" in request.headers or request.url.path.startswith("/v1/messages")
    provider = "gemini" if _is_google(request) else "anthropic" if claude else "openai"
    told = f"{request.method} {request.url.path} is nothing that the simulator knows."
    return _told(provider, Refusal(error.status_code, told, headers=dict(error.headers or {})))


def _either(state: State, openai: Handler, gemini: Handler) -> Endpoint:
    of_openai, of_gemini = _of("openai", state, openai), _of("gemini", state, gemini)

    async def endpoint(request: Request) -> Response:
        return await (of_gemini if _is_google(request) else of_openai)(request)

    return endpoint


def _plain(state: State, handler: Handler) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(state, request)
        except Refusal as refusal:
            return JSONResponse({"error": refusal.message}, refusal.status)

    return endpoint


def _is_google(request: Request) -> bool:
    return _GOOGLE_KEY in request.headers or "key" in request.query_params


def _has_key(provider: str, request: Request) -> bool:
    if provider == "gemini":
        return bool(request.headers.get(_GOOGLE_KEY) or request.query_params.get("key"))
    bearer = request.headers.get("authorization", "").removeprefix("Bearer").strip()
    return bool(bearer or (provider == "anthropic" and request.headers.get("x-api-key")))
