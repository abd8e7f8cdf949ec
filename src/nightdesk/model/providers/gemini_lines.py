"""How one request and one result of a Gemini batch are written, inside a file and inside a request."""

import json
from collections.abc import Iterable, Iterator
from typing import IO

from nightdesk.canonical import Json
from nightdesk.model.providers.base import Item, ItemResult, Parcel
from nightdesk.model.providers.batching import dumped

_CANCELLED = 1
# The HTTP status of a google.rpc.Code, and its name.
_CODES = {
    1: (499, "CANCELLED"),
    2: (500, "UNKNOWN"),
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}


def mark(parcel: Parcel) -> str:
    return f"nightdesk-{parcel.id}"


def file_lines(items: Iterable[Item]) -> Iterator[bytes]:
    for item in items:
        yield dumped({"key": item.name, "request": item.body}) + b"\n"


def inline(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file as they are written inside a request."""
    yield b'{"requests":{"requests":['
    for place, line in enumerate(map(json.loads, file)):
        entry = {"request": line["request"], "metadata": {"key": line["key"]}}
        yield (b"," if place else b"") + dumped(entry)
    yield b"]}}"


def request_body(parcel: Parcel, config: Iterable[bytes]) -> Iterator[bytes]:
    yield b'{"batch":{"displayName":' + dumped(mark(parcel)) + b',"inputConfig":'
    yield from config
    yield b"}}"


def read_line(line: Json) -> ItemResult:
    name = line["key"] if "key" in line else line["metadata"]["key"]
    if line.get("response") is not None:
        return ItemResult(name, "done", 200, line["response"])
    error = line["error"]
    if error.get("code") == _CANCELLED:
        return ItemResult(name, "cancelled")
    status, title = _CODES.get(error.get("code"), (error.get("code"), "UNKNOWN"))
    status = status if isinstance(status, int) and 400 <= status < 600 else 500
    return ItemResult(name, "error", status, {"error": {**error, "code": status, "status": error.get("status", title)}})
