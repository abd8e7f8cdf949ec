"""Gemini's batches, which are long-running operations."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.batches import Batch, Item
from nightdesk.model.simulator.bodies import MEGABYTE, json_body, page_size, parsed
from nightdesk.model.simulator.gemini_content import bare_model
from nightdesk.model.simulator.live import GEMINI
from nightdesk.model.simulator.model import timestamp
from nightdesk.model.simulator.refusals import Refusal, rpc_status, spend_stop
from nightdesk.model.simulator.state import State

RESPONSES = "batch-"
_MOST_BYTES = 20 * MEGABYTE
_HOURS = 48
_STATES = {"time": "SUCCEEDED", "cancel": "CANCELLED", "expiry": "EXPIRED", "failure": "FAILED"}
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


async def create(state: State, request: Request) -> Response:
    if state.faults.take("spend_stop", "gemini"):
        raise spend_stop("gemini")
    state.fail_if("create_refused", "gemini")
    asked = (await json_body(request, _MOST_BYTES)).get("batch") or {}
    model = bare_model(request.path_params["model"])
    source = asked.get("inputConfig") or {}
    inline = "requests" in source
    items = _inline_items(source["requests"], model) if inline else _file_items(state, source, model)
    if not items:
        raise Refusal(400, "The batch has no requests.")
    batch = state.shelf.create("sim", GEMINI, items, _HOURS)
    batch.label = {"displayName": asked.get("displayName", ""), "inline": inline}
    if state.shelf.overfull(batch):
        raise Refusal(429, "Resource has been exhausted (batch enqueued tokens).", retry_after=60)
    if state.faults.take("batch_failed", "gemini"):
        batch.failure = Refusal(500, "The batch failed.")
    await state.shelf.add(batch)
    return JSONResponse(_shown(state, batch))


async def retrieve(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    await _settle(state, batch)
    return JSONResponse(_shown(state, batch))


async def listed(state: State, request: Request) -> Response:
    """The token of a page is the place where it begins. Results are left to the single batch."""
    found, size = state.shelf.listed("gemini"), page_size(request, "pageSize", 50, 1000)
    start = int(request.query_params.get("pageToken") or 0)
    page = found[start : start + size]
    for batch in page:
        await _settle(state, batch)
    answer: dict[str, Json] = {"operations": [_shown(state, batch, results=False) for batch in page]}
    if start + size < len(found):
        answer["nextPageToken"] = str(start + size)
    return JSONResponse(answer)


async def cancel(state: State, request: Request) -> Response:
    state.shelf.cancel(_batch(state, request))
    return JSONResponse({})


async def delete(state: State, request: Request) -> Response:
    batch = _batch(state, request)
    await _settle(state, batch)
    state.shelf.delete(batch)
    return JSONResponse({})


def line(state: State, batch: Batch, index: int) -> dict[str, Json]:
    """A line of the result file."""
    return {"key": batch.items[index].name, **_outcome(state, batch, index)}


def ran(batch: Batch) -> list[int]:
    """The items of a settled batch that have a result. One that expired has none, not even an error."""
    return [i for i, result in enumerate(batch.results) if result and result.kind in ("done", "error")]


async def _settle(state: State, batch: Batch) -> None:
    if batch.end not in ("", "failure"):
        await state.shelf.settle(batch)


def _batch(state: State, request: Request) -> Batch:
    return state.shelf.get("gemini", request.path_params["id"])


def _inline_items(requests: dict[str, Json], model: str) -> list[Item]:
    asked = requests.get("requests") or []  # nosec B113: this is no request, but a batch
    return [_item(str((one.get("metadata") or {}).get("key", index)), one, model) for index, one in enumerate(asked)]


def _file_items(state: State, source: dict[str, Json], model: str) -> list[Item]:
    file = state.files.get(str(source.get("fileName", "")).removeprefix("files/"))
    lines = [parsed(text) for text in file.content.split(b"\n") if text.strip()]
    return [_item(str(one.get("key", index)), one, model) for index, one in enumerate(lines)]


def _item(name: str, asked: dict[str, Json], model: str) -> Item:
    body = {**(asked.get("request") or {}), "model": model}
    return Item(name, body, GEMINI.problem(body))


def _outcome(state: State, batch: Batch, index: int) -> dict[str, Json]:
    found = state.shelf.result(batch, index)
    return {"error": rpc_status(found.refusal)} if found.refusal else {"response": found.body}


def _state_of(state: State, batch: Batch) -> str:
    """All of it expires or nothing, as far as the state goes."""
    if batch.end == "time" and batch.items and len(batch.expiring) == len(batch.items):
        return "BATCH_STATE_EXPIRED"
    if batch.end:
        return f"BATCH_STATE_{_STATES[batch.end]}"
    early = state.now() - batch.created_at < state.behaviour.batch_seconds / 10
    return "BATCH_STATE_PENDING" if early else "BATCH_STATE_RUNNING"


def _stats(state: State, batch: Batch) -> dict[str, str]:
    """Numbers as text, as the protocol has 64-bit integers."""
    total, counts = len(batch.items), batch.counts()
    hidden = state.faults.active("counts_zero", "gemini") is not None
    done = counts["done"] if batch.end else 0 if hidden else batch.progress(state.now())
    failed = total - done if batch.end else 0
    stats = {"requestCount": total, "pendingRequestCount": total - done - failed}
    stats |= {"successfulRequestCount": done, "failedRequestCount": failed}
    return {name: str(number) for name, number in stats.items()}


def _output(state: State, batch: Batch) -> dict[str, Json]:
    if not batch.label["inline"]:
        return {"responsesFile": f"files/{RESPONSES}{batch.id}"}
    answers = [{**_outcome(state, batch, i), "metadata": {"key": batch.items[i].name}} for i in ran(batch)]
    return {"inlinedResponses": {"inlinedResponses": answers}}


def _shown(state: State, batch: Batch, results: bool = True) -> dict[str, Json]:
    metadata: dict[str, Json] = {
        "@type": _TYPE,
        "name": f"batches/{batch.id}",
        "model": f"models/{batch.model}",
        "displayName": batch.label["displayName"],
        "state": _state_of(state, batch),
        "createTime": timestamp(batch.created_at),
        "updateTime": timestamp(batch.ended_at or state.now()),
        "batchStats": _stats(state, batch),
    }
    shown: dict[str, Json] = {"name": f"batches/{batch.id}", "metadata": metadata}
    if batch.end:
        shown["done"] = True
        metadata["endTime"] = timestamp(batch.ended_at)
    if results and batch.end not in ("", "failure") and ran(batch):
        metadata["output"] = _output(state, batch)
        shown["response"] = {"@type": f"{_TYPE}.Output", **metadata["output"]}
    if batch.failure is not None:
        shown["error"] = rpc_status(batch.failure)
    return shown
