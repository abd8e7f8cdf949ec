"""Saying what is wrong and where: paths like `bullets[1]`, and pydantic's findings in the house's words."""

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nightdesk.canonical import Json
from nightdesk.settings import nearest

Path = tuple[str | int, ...]
Fault = tuple[Path, str]

LARGEST_NUMBER = 1e15  # up to here SQLite, Postgres and every JSON reader keep whole numbers exactly
_DEEPEST = 100


def dotted(path: Path) -> str:
    """The path in the notation `a.b[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def found_by_pydantic(error: ValidationError, model: type[BaseModel], noun: str, at: Path = ()) -> list[Fault]:
    return [(at + problem["loc"], _in_words(problem, model, noun)) for problem in error.errors(include_url=False)]


def _in_words(problem: ErrorDetails, model: type[BaseModel], noun: str) -> str:
    if problem["type"] == "missing":
        return "is missing"
    if problem["type"] == "extra_forbidden":
        *above, word = problem["loc"]
        return f"is not a known {noun}" + hint(str(word), fields_of(model_at(model, above)))
    if problem["type"] == "model_type":
        return "must be a mapping of names to values"
    return re.sub(r"^\w+ should", "must", problem["msg"]).removeprefix("Value error, ")


def hint(word: str, known: Iterable[str]) -> str:
    """The nearest known word, as an ending for a fault."""
    words = list(known)
    return nearest(word[:64], words) if words else ""


def fields_of(model: type[BaseModel] | None) -> dict[str, object]:
    """Field names as they stand in JSON, with their types."""
    if model is None:
        return {}
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The model that is reached by following the field names in the path; list positions are stepped over."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, str):
            here = next(_models_in(fields_of(here).get(part)), None)
    return here


def no_such_field(model: type[BaseModel], place: str, whose: str, *, inside_any: bool = False) -> str:
    """What is wrong with a place such as `claims.source`; empty if it is there, or may be inside an `any`."""
    parts = place.split(".")
    for depth, part in enumerate(parts):
        known = fields_of(model_at(model, parts[:depth]))
        if part not in known:
            return f"`{part}` is no field of {whose}{hint(part, known)}"
        if inside_any and known[part] is typing.Any:
            return ""
    return ""


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)


def plain(value: object, faults: list[Fault], path: Path = ()) -> Json:
    """A copy that is JSON any database can keep; what is not is named in the faults and replaced by null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, faults, path)
    if isinstance(value, int | float):
        return _plain_number(value, faults, path)
    if isinstance(value, Mapping | list) and len(path) >= _DEEPEST:
        return _fault(faults, path, f"is nested more than {_DEEPEST} deep")
    if isinstance(value, Mapping):
        return {_plain_name(key, faults, path): plain(item, faults, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, faults, (*path, position)) for position, item in enumerate(value)]
    return _fault(faults, path, "is not JSON: it must be text, a number, true, false, null, a list or a mapping")


def _plain_name(key: object, faults: list[Fault], path: Path) -> str:
    if not isinstance(key, str):
        _fault(faults, path, "has a name that is not text")
        return str(key)
    _plain_text(key, faults, path)
    return key


def _plain_text(text: str, faults: list[Fault], path: Path) -> Json:
    return _fault(faults, path, "must not contain the character NUL") if "\0" in text else text


def _plain_number(number: float, faults: list[Fault], path: Path) -> Json:
    if -LARGEST_NUMBER <= number <= LARGEST_NUMBER:  # false for NaN, too
        return number
    return _fault(faults, path, "must be a number between -1e15 and 1e15")


def _fault(faults: list[Fault], path: Path, text: str) -> None:
    faults.append((path, text))
