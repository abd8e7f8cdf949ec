"""The bodies of requests: read up to a size, and as JSON that the rest of the simulator can rely on."""

import json
import re
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from nightdesk.canonical import Json
from nightdesk.model.simulator.refusals import Refusal

MEGABYTE = 1024 * 1024
MOST_BYTES = 32 * MEGABYTE
# What a value of the wrong form raises while a request is read whose outline is right.
MISREAD = (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, re.error)
_SURROGATE = re.compile(rb"\\u[dD]")


def dumped(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def body_of(request: Request, most: int = MOST_BYTES) -> bytes:
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise Refusal(413, f"The request is larger than {most} bytes.")
    except ClientDisconnect:
        raise Refusal(400, "The body never came.") from None
    return b"".join(pieces)


async def json_body(request: Request, most: int = MOST_BYTES) -> dict[str, Json]:
    body = parsed(await body_of(request, most))
    if not isinstance(body, dict):
        raise Refusal(400, "The body must be a JSON object.")
    return body


def parsed(text: bytes | bytearray) -> Json:
    """Half of a surrogate pair is JSON, but no text that could be sent back."""
    try:
        value = json.loads(text, parse_constant=_refused)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not valid JSON: {error}") from None
    return value


def whole(body: dict[str, Json], name: str) -> int | None:
    """The number of this name, as limits are: a whole one above 0, or none."""
    value = body.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise Refusal(400, f"{name}: must be a whole number above 0.")


def count(body: dict[str, Json], name: str, most: int) -> int:
    """How many of something the request wants; one where it does not say."""
    wanted = whole(body, name) or 1
    if wanted > most:
        raise Refusal(400, f"{name}: must be {most} at most.")
    return wanted


def page_size(request: Request, name: str, default: int, most: int) -> int:
    stated = request.query_params.get(name) or str(default)
    if not stated.isdecimal() or not 1 <= int(stated) <= most:
        raise Refusal(400, f"{name}: must be between 1 and {most}.")
    return int(stated)


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
