"""What the simulator answers about itself: how it behaves, what is set to go wrong, and the bill."""

from dataclasses import asdict, fields

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nightdesk.canonical import Json
from nightdesk.model.simulator.behaviour import Fault, is_amount
from nightdesk.model.simulator.bodies import MISREAD, json_body
from nightdesk.model.simulator.model import timestamp
from nightdesk.model.simulator.refusals import Refusal
from nightdesk.model.simulator.state import State


async def show(state: State, request: Request) -> Response:
    return JSONResponse(_shown(state))


async def change(state: State, request: Request) -> Response:
    """All of it or nothing."""
    try:
        apply(state, await json_body(request))
    except MISREAD as error:
        raise Refusal(400, str(error)) from None
    return JSONResponse(_shown(state))


async def meter(state: State, request: Request) -> Response:
    """Batches that have ended are run first, or what nobody has fetched yet would be missing."""
    for batch in state.shelf.all():
        if batch.end not in ("", "failure"):
            await state.shelf.settle(batch)
    return JSONResponse(state.meter.report(items=request.query_params.get("items") == "1"))


def apply(state: State, orders: dict[str, Json]) -> None:
    """Settings by their names, and `faults`, `clear`, `advance`, `clear_meter`."""
    settings = dict(orders)
    faults: list[Json] = settings.pop("faults", [])
    made = [_fault(fault) for fault in faults]
    advance = settings.pop("advance", 0)
    if not is_amount(advance) or not is_amount(state.advanced + advance):
        raise ValueError("`advance` is a number of seconds, forward and within ten years")
    clear, clear_meter = settings.pop("clear", False), settings.pop("clear_meter", False)
    if not (isinstance(clear, bool) and isinstance(clear_meter, bool)):
        raise ValueError("`clear` and `clear_meter` are true or false")
    state.behaviour.change(settings)
    if clear:
        state.faults.clear()
    if clear_meter:
        state.meter.clear()
    for fault in made:
        state.faults.add(fault)
    state.advanced += advance


def _fault(stated: Json) -> Fault:
    known = [field.name for field in fields(Fault)]
    if not isinstance(stated, dict) or "kind" not in stated or (stated.keys() - set(known)):
        raise ValueError(f"a fault has a `kind` and perhaps others of {', '.join(known)}")
    return Fault(**stated)


def _shown(state: State) -> dict[str, Json]:
    return {
        **asdict(state.behaviour),
        "faults": state.faults.shown(),
        "now": timestamp(state.now()),
        "advanced": state.advanced,
    }
