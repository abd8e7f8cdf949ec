"""From the gates as they are stated to gates with checked settings; every fault is named with its place."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from nightdesk.canonical import Json
from nightdesk.playbook.definition import Gate
from nightdesk.playbook.faults import Fault, Path, found_by_pydantic, hint, no_such_field
from nightdesk.playbook.gates import GATES, Judge, Schema, Settings
from nightdesk.playbook.notation import read_model

Check = Callable[[Any, Any], Any]  # (draft, input) -> what `review.own` reads as a verdict
_OWN = "check"
_FUNCTION = "must be file and function, as in gates.py:no_prices"


@dataclass(frozen=True)
class Around:
    """What the playbook states beside its gates, by which they are checked."""

    input: type[BaseModel]
    output: type[BaseModel] | None
    has_model: bool


def read_gates(stated: Json, own: Mapping[int, Check], around: Around, faults: list[Fault]) -> tuple[Gate, ...]:
    """The gates in their order; `own` are the user's functions by their place. What is no gate at all is left out."""
    found = []
    for number, entry in enumerate(stated if isinstance(stated, list) else ()):
        named = {entry: {}} if isinstance(entry, str) else entry
        if isinstance(named, Mapping) and len(named) == 1:
            [(name, settings)] = named.items()
            at = ("gates", number)
            gate = _own(settings, own.get(number), faults, (*at, name)) if name == _OWN else None
            found.append(gate if name == _OWN else _known(name, settings, around, faults, at))
    return tuple(gate for gate in found if gate is not None)


def _known(name: str, stated: Json, around: Around, faults: list[Fault], at: Path) -> Gate | None:
    if name not in GATES:
        faults.append((at, f"names the unknown gate `{name[:64]}`{hint(name, [*GATES, _OWN])}"))
        return None
    at = (*at, name)
    try:
        settings = GATES[name].model_validate(stated)
    except ValidationError as error:
        faults += found_by_pydantic(error, GATES[name], "setting", at)
        return None
    faults += [(at, text) for text in _out_of_place(settings, around)]
    if isinstance(settings, Schema):
        settings = settings.model_copy(update={"type": read_model({"value": settings.type}, faults, (*at, "type"))})
    return Gate(name, settings)


def _own(stated: Json, own: Check | None, faults: list[Fault], at: Path) -> Gate | None:
    if not isinstance(stated, str):
        faults.append((at, _FUNCTION))
    elif own is None and not any(path == at for path, _ in faults):
        faults.append((at, f"{_FUNCTION}; in Python give the function itself"))
    return None if own is None else Gate(str(stated).rpartition(":")[2], Settings(), own)


def _out_of_place(settings: Settings, around: Around) -> Iterator[str]:
    """Fields that the draft or the input does not have; a judge where there is no model."""
    sides = ((settings.in_draft, around.output, "the output"), (settings.in_input, around.input, "the input"))
    for places, model, whose in sides:
        for place in places:
            if model is not None and (text := no_such_field(model, place, whose, inside_any=True)):
                yield f"names {place}, but {text}"
    if isinstance(settings, Judge) and settings.model is None and not around.has_model:
        yield "needs a model: state one in it, or the playbook's own"
