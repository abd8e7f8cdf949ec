"""What the wire protocols have in common: reading a request, and writing server-sent events."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import Invalid
from nightdesk.model.asks import HttpRequest


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes: `base_url` and `path` in one, taken apart where the provider's own path begins."""

    base_url: str
    path: str
    query: str
    groups: tuple[str, ...]


def place(request: HttpRequest, pattern: re.Pattern[str]) -> Place | None:
    """The place of a POST whose path ends in the pattern, on whatever host and behind whatever prefix."""
    if request.method.upper() != "POST":
        return None
    url = urlsplit(request.url)
    match = pattern.search(url.path.rstrip("/"))
    if match is None:
        return None
    before = url.path[: match.start()].rstrip("/")
    return Place(f"{url.scheme}://{url.netloc}{before}", match.group(), url.query, match.groups())


def body_of(request: HttpRequest) -> dict[str, Json]:
    try:
        body: Json = jsonable(json.loads(request.body, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise Invalid("The request's body is no JSON", [("", str(error) or "nested too deeply")]) from error
    if not isinstance(body, dict):
        raise Invalid("The request's body is no JSON object.", [], "Send what the provider's API documents.")
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def model_in(body: Mapping[str, Json]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Invalid("The request names no model, so its price is not known.", [], "State `model` in it.")
    return model


def refuse_own_batch() -> NoReturn:
    raise Invalid(
        "A batch was about to be sent from inside a task, where its price and its answers would be lost in a crash.",
        [],
        "Ask with plain requests, and do not use the framework's own batching: Nightdesk puts them into batches.",
    )


def picked(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if headers.get(name)}


def bearer(headers: Mapping[str, str]) -> str | None:
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if kind.lower() == "bearer" else None


def whole(value: Json) -> int | None:
    """The value if it is a whole number above 0, as limits are."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def objects(value: Json) -> list[dict[str, Json]]:
    """The objects in a list; what should be a list of objects and is not has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def at(value: Json, *path: str) -> Json:
    """What lies at a path through objects; None where it ends early."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def event(data: Json, name: str = "") -> str:
    """One server-sent event. Only ASCII: some readers take U+2028 and U+0085 for the end of a line."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n"


def named_events(events: Iterable[dict[str, Json]]) -> bytes:
    """Events that carry their name as `type` too."""
    return "".join(event(data, data["type"]) for data in events).encode()
