"""One way to write a value as JSON, so that equal values have equal text and equal hashes."""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

Json = Any  # what json.loads can return; mypy has no useful recursive JSON type

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def jsonable(value: object) -> Json:
    """The value as plain JSON data: lone surrogates, which no database takes, become U+FFFD; NaN becomes null."""
    return _clean(to_jsonable_python(value, by_alias=True))


def shown_as_json(value: object) -> Json:
    """The same for a value that is only to be looked at: what JSON cannot hold is named by its type."""
    return _clean(to_jsonable_python(value, by_alias=True, fallback=lambda other: f"<{type(other).__qualname__}>"))


def storable(text: str) -> str:
    """The text without what a database's text cannot hold: NUL and lone surrogates become U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text).replace("\0", "\ufffd")


def _clean(value: Json) -> Json:
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(*parts: str) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists of parts collide."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def differing_paths(left: Json, right: Json, path: str = "") -> list[str]:
    """The paths at which two JSON values differ, in the notation `a.b[0]`."""
    return [change.path or "the whole value" for change in changes(left, right, path)]


@dataclass(frozen=True, slots=True)
class Change:
    """What stood at the path and what stands there now; null where there is nothing."""

    path: str
    before: Json
    after: Json


def changes(left: Json, right: Json, path: str = "") -> Iterator[Change]:
    """What makes the one value of the other, as far down as they are alike."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from _changes_at(left, right, key, f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (before, after) in enumerate(zip(left, right, strict=True)):
            yield from changes(before, after, f"{path}[{number}]")
    elif canonical(left) != canonical(right):
        yield Change(path, left, right)


def _changes_at(left: dict[str, Json], right: dict[str, Json], key: str, path: str) -> Iterator[Change]:
    if key not in left or key not in right:
        yield Change(path, left.get(key), right.get(key))
    else:
        yield from changes(left[key], right[key], path)
