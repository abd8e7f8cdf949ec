"""Gemini's files, which are uploaded in pieces to an address of their own."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.bodies import MEGABYTE, body_of, json_body
from nightdesk.model.simulator.files import StoredFile
from nightdesk.model.simulator.gemini_batches import RESPONSES, line, ran
from nightdesk.model.simulator.model import timestamp
from nightdesk.model.simulator.refusals import Refusal
from nightdesk.model.simulator.results import results
from nightdesk.model.simulator.state import State

_MOST_AT_ONCE = 256 * MEGABYTE


async def begin(state: State, request: Request) -> Response:
    """The answer's header says where the pieces go."""
    told = (await json_body(request)).get("file") or {}
    kind = request.headers.get("x-goog-upload-header-content-type", "application/octet-stream")
    name = str(told.get("displayName", ""))
    file = state.files.add(name, kind, bytearray(), state.now(), prefix="sim")
    base = str(request.base_url).rstrip("/")
    url = f"{base}/upload/{request.path_params['version']}/files/{file.id}"
    return JSONResponse({}, headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})


async def receive(state: State, request: Request) -> Response:
    file = state.files.get(request.path_params["id"])
    if int(request.headers.get("x-goog-upload-offset", 0)) != len(file.content):
        raise Refusal(400, "The piece does not begin where the last one ended.")
    file.content += await body_of(request, _MOST_AT_ONCE)
    if "finalize" not in request.headers.get("x-goog-upload-command", ""):
        return JSONResponse({}, headers={"x-goog-upload-status": "active"})
    return JSONResponse({"file": _shown(file)}, headers={"x-goog-upload-status": "final"})


async def retrieve(state: State, request: Request) -> Response:
    return JSONResponse(_shown(state.files.get(request.path_params["id"])))


async def listed(state: State, request: Request) -> Response:
    return JSONResponse({"files": [_shown(file) for file in reversed(state.files.all())]})


async def delete(state: State, request: Request) -> Response:
    state.files.delete(request.path_params["id"])
    return JSONResponse({})


async def download(state: State, request: Request) -> Response:
    """Only what was made can be downloaded, not what was uploaded."""
    name = request.path_params["id"]
    if not name.startswith(RESPONSES):
        raise Refusal(400, "Only generated files can be downloaded.")
    batch = state.shelf.get("gemini", name.removeprefix(RESPONSES))
    if batch.end in ("", "failure"):
        raise Refusal(404, f"File {name} does not exist.")
    await state.shelf.settle(batch)
    return results(state, batch, ran(batch), lambda index: line(state, batch, index))


def _shown(file: StoredFile) -> dict[str, Json]:
    return {
        "name": f"files/{file.id}",
        "displayName": file.name,
        "mimeType": file.purpose,
        "sizeBytes": str(len(file.content)),
        "createTime": timestamp(file.created_at),
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
