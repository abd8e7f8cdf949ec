"""OpenAI's files: what is uploaded, and what batches leave behind."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.batches import Batch
from nightdesk.model.simulator.bodies import MEGABYTE, body_of
from nightdesk.model.simulator.files import StoredFile, form
from nightdesk.model.simulator.refusals import Refusal
from nightdesk.model.simulator.results import results
from nightdesk.model.simulator.state import State

OUTPUT, ERRORS = "file-simoutput-", "file-simerrors-"
_EXPIRES_SECONDS = 30 * 24 * 3600
_MOST_BYTES = 201 * MEGABYTE  # 200 of the file, and something for the form around it


async def upload(state: State, request: Request) -> Response:
    fields = form(request.headers.get("content-type", ""), await body_of(request, _MOST_BYTES))
    if "file" not in fields or "purpose" not in fields:
        raise Refusal(400, "'file' and 'purpose' are required.")
    name, content = fields["file"]
    file = state.files.add(name, fields["purpose"][1].decode(), content, state.now())
    return JSONResponse(_shown(file))


async def retrieve(state: State, request: Request) -> Response:
    name = request.path_params["id"]
    if (found := _of_batch(state, name)) is None:
        return JSONResponse(_shown(state.files.get(name)))
    made = StoredFile(name, f"{name}.jsonl", "batch_output", found.ended_at or 0.0, b"")
    return JSONResponse(_shown(made))


async def content(state: State, request: Request) -> Response:
    name = request.path_params["id"]
    batch = _of_batch(state, name)
    if batch is None:
        return Response(bytes(state.files.get(name).content), media_type="application/octet-stream")
    await state.shelf.settle(batch)
    indexes = output_items(batch) if name.startswith(OUTPUT) else error_items(batch)
    return results(state, batch, indexes, lambda index: _line(state, batch, index))


async def delete(state: State, request: Request) -> Response:
    name = request.path_params["id"]
    if _of_batch(state, name) is None:
        state.files.delete(name)
    return JSONResponse({"id": name, "object": "file", "deleted": True})


async def listed(state: State, request: Request) -> Response:
    shown = [_shown(file) for file in reversed(state.files.all())]
    return JSONResponse({"object": "list", "data": shown, "has_more": False})


def output_items(batch: Batch) -> list[int]:
    """Of a settled batch: those that have an answer."""
    return [index for index, result in enumerate(batch.results) if result and result.kind == "done"]


def error_items(batch: Batch) -> list[int]:
    return [index for index, result in enumerate(batch.results) if result and result.kind != "done"]


def _of_batch(state: State, id: str) -> Batch | None:
    """The batch whose output or errors the file holds."""
    for prefix in (OUTPUT, ERRORS):
        if id.startswith(prefix):
            batch = state.shelf.get("openai", id.removeprefix(prefix))
            if not batch.end:
                raise Refusal(404, f"No such File object: {id}")
            return batch
    return None


def _shown(file: StoredFile) -> dict[str, Json]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.content),
        "created_at": int(file.created_at),
        "expires_at": int(file.created_at) + _EXPIRES_SECONDS,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def _line(state: State, batch: Batch, index: int) -> dict[str, Json]:
    found = state.shelf.result(batch, index)
    line: dict[str, Json] = {"id": f"batch_req_{index}", "custom_id": batch.items[index].name}
    if found.kind in ("done", "error"):
        response = {"status_code": found.status, "request_id": f"req_sim{index}", "body": found.body}
        return {**line, "response": response, "error": None}
    why = {"expired": "This request could not be executed before the completion window expired."}
    message = why.get(found.kind, "This request was not executed, as the batch was cancelled.")
    return {**line, "response": None, "error": {"code": f"batch_{found.kind}", "message": message}}
