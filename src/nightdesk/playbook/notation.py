"""The short notation for types, as written in YAML, turned into strict pydantic models.

string  int  number  boolean  date  datetime  any     one value
string?                                               may be left out; then it is null
[string]                                              a list
{asin: string, price: number}                         a mapping with these fields and no others
{one_of: [draft, final]}                              one of these words
{type: int, min: 1, max: 9, default: 3}               the same with limits (of text and lists: of their length)
"""

import datetime
import re
import typing
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from nightdesk.canonical import Json, canonical
from nightdesk.playbook.faults import Fault, Path, found_by_pydantic, hint

WORDS: dict[str, Any] = {
    "string": str,
    "int": int,
    "number": float,
    "boolean": bool,
    "date": datetime.date,
    "datetime": AwareDatetime,
    "any": Any,
}
_DESCRIPTION = {"type", "one_of", "min", "max", "default"}
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_LENGTH = Annotated[int, Field(ge=0)]
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


def read_model(stated: object, faults: list[Fault], at: Path) -> type[BaseModel]:
    """The model for `input:` or `output:`. Where it has faults they are added, and the model is not to be used."""
    if isinstance(stated, Mapping) and not _is_description(stated):
        return _model(stated, faults, at)
    faults.append((at, "must be a mapping of field names to types"))
    return create_model("Nothing")


def _model(stated: Mapping[str, object], faults: list[Fault], at: Path) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, type_ in stated.items():
        if not _FIELD_NAME.fullmatch(name) or name.startswith("model_"):
            faults.append(((*at, name), "cannot be a field name; use letters, digits and _, and not `model_` in front"))
        else:
            fields[name] = _field(type_, faults, (*at, name))
    with warnings.catch_warnings():
        # Fields called `copy`, `json` or `schema` hide deprecated methods of BaseModel, which nobody here calls.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute", category=UserWarning)
        return create_model("_".join(str(part) for part in at), __config__=_STRICT, **fields)


def _field(stated: object, faults: list[Fault], at: Path) -> tuple[Any, Any]:
    """Annotation and pydantic Field of one field."""
    if isinstance(stated, str) and stated.endswith("?"):
        return _type(stated[:-1], faults, at) | None, Field(default=None)
    annotation = _type(stated, faults, at)
    if not (isinstance(stated, Mapping) and _is_description(stated) and "default" in stated):
        return annotation, Field()
    if stated["default"] is None:
        return annotation | None, Field(default=None)
    return annotation, Field(default=_read(annotation, stated["default"], faults, (*at, "default")))


def _read(annotation: Any, stated: Json, faults: list[Fault], at: Path) -> Any:
    """The stated value as the type has it: a day as a date, say."""
    try:
        return TypeAdapter(annotation).validate_json(canonical(stated), strict=True)
    except ValidationError as error:
        faults += found_by_pydantic(error, BaseModel, "field", at)
        return None


def _type(stated: object, faults: list[Fault], at: Path) -> Any:
    if isinstance(stated, str):
        return _word(stated, faults, at)
    if isinstance(stated, list) and len(stated) == 1:
        return list[_type(stated[0], faults, at)]  # type: ignore[misc]
    if isinstance(stated, Mapping):
        return _description(stated, faults, at) if _is_description(stated) else _model(stated, faults, at)
    faults.append((at, f"must be a type: {', '.join(WORDS)}, [type], {{field: type}} or {{one_of: [word, ...]}}"))
    return Any


def _word(stated: str, faults: list[Fault], at: Path) -> Any:
    if stated in WORDS:
        return WORDS[stated]
    if stated.endswith("?"):
        faults.append((at, "can have `?` only on a field of its own; nothing inside a list can be left out"))
    else:
        faults.append((at, f"has the unknown type `{stated[:64]}`" + hint(stated, WORDS)))
    return Any


def _is_description(stated: Mapping[str, object]) -> bool:
    """A mapping whose keys are all words of a description; a field called `type` beside others stays a field."""
    return ("type" in stated or "one_of" in stated) and stated.keys() <= _DESCRIPTION


def _description(stated: Mapping[str, object], faults: list[Fault], at: Path) -> Any:
    if "one_of" in stated:
        return _one_of(stated, faults, at)
    annotation = _type(stated["type"], faults, at)
    if not stated.keys() & {"min", "max"}:
        return annotation
    by_length = annotation is str or typing.get_origin(annotation) is list
    if by_length or annotation in (int, float):
        return Annotated[annotation, _limits(stated, annotation, by_length, faults, at)]
    faults.append((at, "can have min and max only as string, int, number or list"))
    return annotation


def _limits(stated: Mapping[str, object], annotation: Any, by_length: bool, faults: list[Fault], at: Path) -> Any:
    bound = _LENGTH if by_length else annotation
    low, high = (_read(bound, stated[name], faults, (*at, name)) if name in stated else None for name in ("min", "max"))
    if low is not None and high is not None and low > high:
        faults.append((at, "has a min above its max"))
    return Field(min_length=low, max_length=high) if by_length else Field(ge=low, le=high)


def _one_of(stated: Mapping[str, object], faults: list[Fault], at: Path) -> Any:
    words = stated["one_of"]
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        faults.append(((*at, "one_of"), "must be a list of words; put numbers and true or false in quotes"))
        return Any
    if stated.keys() - {"one_of", "default"}:
        faults.append((at, "can have nothing beside one_of but a default"))
    return Literal[tuple(words)]
