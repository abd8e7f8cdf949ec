"""Live requests: one question, one answer, in JSON or as a stream."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.anthropic_messages import Messages, version_problem
from nightdesk.model.simulator.bodies import dumped, json_body
from nightdesk.model.simulator.dialect import Dialect
from nightdesk.model.simulator.gemini_content import GenerateContent, bare_model
from nightdesk.model.simulator.limits import headers, limits_of
from nightdesk.model.simulator.meter import Lane
from nightdesk.model.simulator.model import ENDLESS
from nightdesk.model.simulator.openai_chat import Chat
from nightdesk.model.simulator.openai_responses import Responses
from nightdesk.model.simulator.refusals import Refusal, spend_stop
from nightdesk.model.simulator.state import State

MESSAGES, CHAT, RESPONSES, GEMINI = Messages(), Chat(), Responses(), GenerateContent()


async def messages(state: State, request: Request) -> Response:
    body = await json_body(request)
    if problem := version_problem(request.headers.get("anthropic-version", ""), body):
        raise problem
    return await _answered(state, request, MESSAGES, body, bool(body.get("stream")))


async def chat(state: State, request: Request) -> Response:
    body = await json_body(request)
    return await _answered(state, request, CHAT, body, bool(body.get("stream")))


async def responses(state: State, request: Request) -> Response:
    body = await json_body(request)
    return await _answered(state, request, RESPONSES, body, bool(body.get("stream")))


async def generate_content(state: State, request: Request) -> Response:
    body = {**await json_body(request), "model": bare_model(request.path_params["model"])}
    return await _answered(state, request, GEMINI, body, streamed=False)


async def stream_generate_content(state: State, request: Request) -> Response:
    body = {**await json_body(request), "model": bare_model(request.path_params["model"])}
    return await _answered(state, request, GEMINI, body, streamed=True)


async def count_tokens(state: State, request: Request) -> Response:
    """What the input of a message would be billed as. It costs nothing."""
    body = {"max_tokens": 1, **await json_body(request)}
    if problem := version_problem(request.headers.get("anthropic-version", ""), body) or MESSAGES.problem(body):
        raise problem
    return JSONResponse({"input_tokens": MESSAGES.read(body).input_tokens})


async def count_gemini_tokens(state: State, request: Request) -> Response:
    body = {**await json_body(request), "model": bare_model(request.path_params["model"])}
    if problem := GEMINI.problem(body):
        raise problem
    return JSONResponse({"totalTokens": GEMINI.read(body).input_tokens})


async def _answered(
    state: State, request: Request, dialect: Dialect, body: dict[str, Json], streamed: bool
) -> Response:
    lane = _lane(body)
    extra = _admitted(state, dialect.provider, lane, int(request.headers.get("content-length", 0)))
    await _wait(state, request, dialect.provider)
    if problem := dialect.problem(body):
        raise problem
    answer = state.execute(dialect, body, lane)
    content = dialect.stream(answer, body) if streamed else dumped(answer)
    if state.faults.take("cut_off", dialect.provider):
        content = content[: len(content) // 2]
    kind = "text/event-stream" if streamed else "application/json"
    return Response(content, media_type=kind, headers=extra)


def _lane(body: dict[str, Json]) -> Lane:
    tier = body.get("service_tier") or body.get("serviceTier") or ""
    return "flex" if str(tier).lower() == "flex" else "live"


def _admitted(state: State, provider: str, lane: Lane, size: int) -> dict[str, str]:
    """Refuses the request, or gives the headers for its answer."""
    if state.faults.take("spend_stop", provider):
        raise spend_stop(provider)
    if lane == "flex" and state.faults.take("no_flex", provider):
        raise Refusal(429, "Resource unavailable for flex processing, try again later.", "resource_unavailable")
    state.fail_if("status", provider)
    told: dict[str, str] = {}
    for limit in limits_of(state.behaviour, size):
        room = state.buckets.take(provider, limit, state.now())
        told |= headers(provider, limit, room, state.now())
        if room.wait:
            raise Refusal(429, f"The limit of {limit.name} is reached.", retry_after=room.wait, headers=told)
    return told


async def _wait(state: State, request: Request, provider: str) -> None:
    """A request that hangs is dropped, unpaid, when its client is gone by the end."""
    if fault := state.faults.take("hang", provider):
        await asyncio.sleep(fault.seconds or ENDLESS)
        if await request.is_disconnected():
            raise Refusal(504)
    if state.behaviour.latency:
        await asyncio.sleep(state.behaviour.latency)
