"""Anthropic's Message Batches."""

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.anthropic_messages import version_problem
from nightdesk.model.simulator.batches import Batch, Item
from nightdesk.model.simulator.bodies import MEGABYTE, json_body, page_size
from nightdesk.model.simulator.live import MESSAGES
from nightdesk.model.simulator.model import timestamp
from nightdesk.model.simulator.refusals import Refusal, spend_stop
from nightdesk.model.simulator.results import results as result_lines
from nightdesk.model.simulator.state import State

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_ITEMS = 100_000
_MOST_BYTES = 256 * MEGABYTE
_HOURS = 24
_WORDS = {"done": "succeeded", "error": "errored", "cancelled": "canceled", "expired": "expired"}


async def create(state: State, request: Request) -> Response:
    if state.faults.take("spend_stop", "anthropic"):
        raise spend_stop("anthropic")
    state.fail_if("create_refused", "anthropic")
    version = request.headers.get("anthropic-version", "")
    items = _items(await json_body(request, _MOST_BYTES), version)
    batch = state.shelf.create("msgbatch_sim", MESSAGES, items, _HOURS)
    batch.model = ""  # requests of all models wait in one queue
    if state.shelf.overfull(batch):
        raise Refusal(429, "The number of queued batch requests would exceed your limit.", retry_after=60)
    await state.shelf.add(batch)
    return JSONResponse(_shown(batch, request))


async def retrieve(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    if batch.end:
        await state.shelf.settle(batch)
    return JSONResponse(_shown(batch, request))


async def listed(state: State, request: Request) -> Response:
    """`after_id` goes on to older ones, `before_id` back to newer ones."""
    query = request.query_params
    found, limit = state.shelf.listed("anthropic"), page_size(request, "limit", 20, 1000)
    ids = [batch.id for batch in found]
    if (after := query.get("after_id")) in ids:
        rest = found[ids.index(after) + 1 :]
        page = rest[:limit]
    else:
        rest = found[: ids.index(before)] if (before := query.get("before_id")) in ids else found
        page = rest[-limit:] if before else rest[:limit]
    for batch in page:
        if batch.end:
            await state.shelf.settle(batch)
    ends = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
    return JSONResponse({"data": [_shown(b, request) for b in page], "has_more": len(rest) > len(page), **ends})


async def cancel(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    state.shelf.cancel(batch)
    if batch.end:
        await state.shelf.settle(batch)
    return JSONResponse(_shown(batch, request))


async def results(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    if not batch.end:
        raise Refusal(404, "The batch has not ended; there are no results yet.")

    def line(index: int) -> dict[str, Json]:
        return _line(state, batch, index)

    return result_lines(state, batch, list(range(len(batch.items))), line)


async def delete(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    if not batch.end:
        raise Refusal(400, "Only a batch that has ended can be deleted.")
    await state.shelf.settle(batch)
    state.shelf.delete(batch)
    return JSONResponse({"id": batch.id, "type": "message_batch_deleted"})


def _batch(state: State, request: Request) -> Batch:
    return state.shelf.get("anthropic", request.path_params["id"])


def _items(body: dict[str, Json], version: str) -> list[Item]:
    asked = body.get("requests")
    if not isinstance(asked, list) or not asked or not all(isinstance(one, dict) for one in asked):
        raise Refusal(400, "requests: Input should be a list of at least one object")
    if len(asked) > _MOST_ITEMS:
        raise Refusal(413, f"A batch holds {_MOST_ITEMS} requests at most.")
    names = [str(one.get("custom_id", "")) for one in asked]
    if len(set(names)) < len(names):
        raise Refusal(400, "requests: custom_id must be unique within a batch")
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise Refusal(400, f"requests: custom_id {wrong!r} should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    bodies = [one.get("params") or {} for one in asked]
    return [Item(name, body, _problem(body, version)) for name, body in zip(names, bodies, strict=True)]


def _problem(body: Json, version: str) -> Refusal | None:
    if not isinstance(body, dict):
        return Refusal(400, "params: Input should be an object")
    if body.get("stream"):
        return Refusal(400, "stream: streaming is not supported in batches")
    return version_problem(version, body) or MESSAGES.problem(body)


def _shown(batch: Batch, request: Request) -> dict[str, Json]:
    """Nothing is counted before the whole batch has ended."""
    counts = batch.counts() if batch.end else {}
    waiting = 0 if batch.end else len(batch.items)
    status = "ended" if batch.end else "in_progress" if batch.cancel_at is None else "canceling"
    url = f"{str(request.base_url).rstrip('/')}/v1/messages/batches/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": {"processing": waiting, **{word: counts.get(kind, 0) for kind, word in _WORDS.items()}},
        "created_at": timestamp(batch.created_at),
        "expires_at": timestamp(batch.expires_at),
        "ended_at": timestamp(batch.ended_at),
        "cancel_initiated_at": timestamp(batch.cancel_at),
        "archived_at": None,
        "results_url": url if batch.end else None,
    }


def _line(state: State, batch: Batch, index: int) -> dict[str, Json]:
    found = state.shelf.result(batch, index)
    result: dict[str, Json] = {"type": _WORDS[found.kind]}
    if found.kind == "done":
        result["message"] = found.body
    elif found.kind == "error":
        result["error"] = found.body
    return {"custom_id": batch.items[index].name, "result": result}
