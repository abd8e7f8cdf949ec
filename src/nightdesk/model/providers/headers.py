"""What an answer's headers tell of rate limits, and of when to come back."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from nightdesk.canonical import Json
from nightdesk.model.providers.base import Learned
from nightdesk.model.providers.wire import at, objects

Dimension = Literal["requests", "input_tokens", "output_tokens"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def retry_after(headers: Mapping[str, str], now: datetime, body: Json = None) -> float | None:
    """The seconds after which to come back, never below 0; None if the answer does not say. Gemini says it in the
    body of the error."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    stated = headers.get("retry-after", "").strip()
    seconds = _number(stated)
    if seconds is not None:
        return max(0.0, seconds)
    in_body = [_span(str(detail["retryDelay"])) for detail in _details(body) if "retryDelay" in detail]
    return in_body[0] if in_body else _until(_http_date(stated), headers, now)


def resets_at(headers: Mapping[str, str], name: str, now: datetime) -> float | None:
    """The seconds until the moment (RFC 3339) in the header."""
    try:
        moment = datetime.fromisoformat(headers.get(name, "").strip())
    except ValueError:
        return None
    return _until(moment if moment.tzinfo else moment.replace(tzinfo=UTC), headers, now)


def resets_after(headers: Mapping[str, str], name: str) -> float | None:
    """The seconds in a header such as `6m0s`, `120ms` or `30`."""
    return _span(headers.get(name, "").strip())


def _span(text: str) -> float | None:
    spans = _SPAN.findall(text)
    if spans and _SPAN.sub("", text) == "":
        return sum(float(amount) * _UNITS[unit] for amount, unit in spans)
    return _number(text)


def learned(
    headers: Mapping[str, str], dimension: Dimension, limit: str, remaining: str, resets_in: float | None
) -> list[Learned]:
    """What the two named headers tell; nothing if neither is there."""
    most, left = _number(headers.get(limit, "")), _number(headers.get(remaining, ""))
    return [] if most is None and left is None else [Learned(dimension, most, left, resets_in)]


def _details(body: Json) -> list[dict[str, Json]]:
    return objects(at(body[0] if isinstance(body, list) and body else body, "error", "details"))


def _until(moment: datetime | None, headers: Mapping[str, str], now: datetime) -> float | None:
    """By the other side's clock where it tells the time, so that a clock set wrongly does not matter."""
    if moment is None:
        return None
    there = _http_date(headers.get("date", "")) or now
    return max(0.0, (moment - there).total_seconds())


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else None
