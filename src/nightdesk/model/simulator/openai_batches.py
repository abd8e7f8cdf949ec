"""OpenAI's batches."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.batches import Batch, Item
from nightdesk.model.simulator.bodies import json_body, page_size, parsed
from nightdesk.model.simulator.dialect import Dialect
from nightdesk.model.simulator.live import CHAT, RESPONSES
from nightdesk.model.simulator.openai_files import ERRORS, OUTPUT, error_items, output_items
from nightdesk.model.simulator.refusals import Refusal, spend_stop
from nightdesk.model.simulator.state import State

_DIALECTS: dict[str, Dialect] = {CHAT.endpoint: CHAT, RESPONSES.endpoint: RESPONSES}
_MOST_ITEMS = 50_000
_HOURS = 24


async def create(state: State, request: Request) -> Response:
    if state.faults.take("spend_stop", "openai"):
        raise spend_stop("openai")
    state.fail_if("create_refused", "openai")
    body = await json_body(request)
    endpoint = str(body.get("endpoint", ""))
    if endpoint not in _DIALECTS:
        raise Refusal(400, f"Invalid value for 'endpoint': {endpoint!r}.", "invalid_value")
    if body.get("completion_window") != "24h":
        raise Refusal(400, "Invalid value for 'completion_window': only '24h' is supported.", "invalid_value")
    file = state.files.get(str(body.get("input_file_id", "")))
    items, failure = _read(file.content, endpoint)
    batch = state.shelf.create("batch_sim", _DIALECTS[endpoint], items, _HOURS)
    batch.label = {"input_file_id": file.id, "metadata": body.get("metadata")}
    batch.failure = failure or _refused(state, batch)
    await state.shelf.add(batch)
    return JSONResponse(_shown(state, batch))


async def retrieve(state: State, request: Request) -> Response:
    return await _answered(state, _batch(state, request))


async def listed(state: State, request: Request) -> Response:
    found, limit = state.shelf.listed("openai"), page_size(request, "limit", 20, 100)
    ids = [batch.id for batch in found]
    rest = found[ids.index(after) + 1 :] if (after := request.query_params.get("after")) in ids else found
    page = rest[:limit]
    for batch in page:
        if batch.end:
            await state.shelf.settle(batch)
    ends = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
    shown = [_shown(state, batch) for batch in page]
    return JSONResponse({"object": "list", "data": shown, "has_more": len(rest) > limit, **ends})


async def cancel(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    if batch.end:
        raise Refusal(409, f"Cannot cancel a batch with status '{_status(state, batch)}'.")
    state.shelf.cancel(batch)
    return await _answered(state, batch)


async def _answered(state: State, batch: Batch) -> Response:
    if batch.end not in ("", "failure"):
        await state.shelf.settle(batch)
    return JSONResponse(_shown(state, batch))


def _batch(state: State, request: Request) -> Batch:
    return state.shelf.get("openai", request.path_params["id"])


def _read(content: bytes | bytearray, endpoint: str) -> tuple[list[Item], Refusal | None]:
    """The items of the file, or why the whole of it fails."""
    try:
        lines = [parsed(line) for line in content.split(b"\n") if line.strip()]
    except Refusal:
        return [], Refusal(400, "This line is not parseable as valid JSON.", "invalid_json_line")
    if not all(_is_request(line) for line in lines):
        return [], Refusal(400, "This line is not a request with a custom_id and a body.", "invalid_request")
    if not lines or len(lines) > _MOST_ITEMS:
        return [], Refusal(400, f"A batch has between 1 and {_MOST_ITEMS} requests.", "invalid_request_count")
    items = [Item(line["custom_id"], line["body"], _problem(line["body"], endpoint)) for line in lines]
    if len({item.name for item in items}) < len(items):
        return items, Refusal(400, "The custom_id of each request must be unique.", "duplicate_custom_id")
    if any(line.get("url") != endpoint for line in lines):
        return items, Refusal(400, "The URL of each request must be the batch's endpoint.", "invalid_url")
    if len({str(item.body.get("model")) for item in items}) > 1:
        return items, Refusal(400, "All requests of a batch must have the same model.", "mismatched_model")
    return items, None


def _is_request(line: Json) -> bool:
    return isinstance(line, dict) and isinstance(line.get("custom_id"), str) and isinstance(line.get("body"), dict)


def _problem(body: dict[str, Json], endpoint: str) -> Refusal | None:
    if body.get("stream"):
        return Refusal(400, "Streaming is not supported in the Batch API.")
    return _DIALECTS[endpoint].problem(body)


def _refused(state: State, batch: Batch) -> Refusal | None:
    if state.faults.take("batch_failed", "openai"):
        return Refusal(400, "The batch failed.", "batch_failed")
    if state.shelf.overfull(batch):
        told = f"Enqueued token limit reached for {batch.model}. Please try again once some batches have completed."
        return Refusal(429, told, "token_limit_exceeded")
    return None


def _status(state: State, batch: Batch) -> str:
    if batch.end == "time":
        return "expired" if batch.expiring else "completed"
    if batch.end:
        return {"failure": "failed", "expiry": "expired", "cancel": "cancelled"}[batch.end]
    if batch.cancel_at is not None:
        return "cancelling"
    return "validating" if state.now() - batch.created_at < state.behaviour.batch_seconds / 10 else "in_progress"


def _counts(state: State, batch: Batch) -> dict[str, int]:
    total = len(batch.items)
    if batch.end == "failure":
        return {"total": 0, "completed": 0, "failed": 0}
    if batch.end:
        return {"total": total, "completed": len(output_items(batch)), "failed": len(error_items(batch))}
    hidden = state.faults.active("counts_zero", "openai") is not None
    return {"total": total, "completed": 0 if hidden else batch.progress(state.now()), "failed": 0}


def _shown(state: State, batch: Batch) -> dict[str, Json]:
    status, ran = _status(state, batch), batch.end not in ("", "failure")
    times = {f"{name}_at": None for name in ("completed", "failed", "expired", "cancelled", "finalizing")}
    if batch.ended_at is not None:
        times[f"{status}_at"] = int(batch.ended_at)  # type: ignore[assignment]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.dialect.endpoint,
        "model": batch.model,
        "errors": _errors(batch),
        "completion_window": "24h",
        "status": status,
        "output_file_id": f"{OUTPUT}{batch.id}" if ran and output_items(batch) else None,
        "error_file_id": f"{ERRORS}{batch.id}" if ran and error_items(batch) else None,
        "created_at": int(batch.created_at),
        "in_progress_at": None if batch.failure else int(batch.created_at),
        "expires_at": int(batch.expires_at),
        "cancelling_at": None if batch.cancel_at is None else int(batch.cancel_at),
        "request_counts": _counts(state, batch),
        **times,
        **batch.label,
    }


def _errors(batch: Batch) -> dict[str, Any] | None:
    if batch.failure is None:
        return None
    error = {"code": batch.failure.code, "message": batch.failure.message, "param": None, "line": None}
    return {"object": "list", "data": [error]}
