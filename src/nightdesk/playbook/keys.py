"""Key templates: `"{asin}"`, `"{shop.name}/{day}"`. Fields and dots, and nothing else of Python's formatting."""

import re

from pydantic import BaseModel

from nightdesk.canonical import Json, canonical, digest
from nightdesk.playbook.faults import Fault, no_such_field

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}")
_LONGEST = 255  # what an Idempotency-Key may have, and short enough for every database's index


def check_template(template: str, model: type[BaseModel], faults: list[Fault]) -> None:
    if set(_HOLE.sub("", template)) & set("{}"):
        faults.append((("key",), "may use braces only around a field name, as in {asin} or {shop.name}"))
    holes = _HOLE.findall(template)
    if not holes:
        faults.append((("key",), "must name a field of the input, as in {asin}; else all tasks would be the same"))
    for hole in holes:
        _check_hole(hole, model, faults)


def _check_hole(hole: str, model: type[BaseModel], faults: list[Fault]) -> None:
    if text := no_such_field(model, hole, "the input"):
        faults.append((("key",), f"names {{{hole}}}, but {text}"))


def names(template: str) -> list[str]:
    """The fields that the template names, without those within another."""
    return [hole for hole in _HOLE.findall(template) if "." not in hole]


def fill(template: str, values: Json) -> str:
    """The template filled in; a key too long for an index, or that could not be shown, is replaced by its digest."""
    key = filled(template, values)
    return key if 0 < len(key) <= _LONGEST and key.isprintable() else digest(key)


def filled(template: str, values: Json) -> str:
    """The template with what its holes name, however long."""
    return _HOLE.sub(lambda hole: _text(values, hole[1].split(".")), template)


def _text(value: Json, path: list[str]) -> str:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str) else canonical(value)
