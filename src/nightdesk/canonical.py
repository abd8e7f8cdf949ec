"""One way to write a value as JSON, so that equal values have equal text and equal hashes."""

import hashlib
import json
import math
import re
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
    if isinstance(left, dict) and isinstance(right, dict):
        return [
            found
            for key in sorted(left.keys() | right.keys())
            for found in _differs_at(left, right, key, f"{path}.{key}" if path else key)
        ]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [found for i, (a, b) in pairs for found in differing_paths(a, b, f"{path}[{i}]")]
    return [] if canonical(left) == canonical(right) else [path or "the whole value"]


def _differs_at(left: dict[str, Json], right: dict[str, Json], key: str, path: str) -> list[str]:
    if key not in left or key not in right:
        return [path]
    return differing_paths(left[key], right[key], path)
