"""How much is answered live: token buckets for each provider, and the headers that tell of them."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from nightdesk.model.simulator.behaviour import Behaviour

_NEVER = 3600.0
_HEADERS = {
    "anthropic": "anthropic-ratelimit-{name}-{what}",
    "openai": "x-ratelimit-{what}-{name}",
}
_NAMES = {"anthropic": {"input_tokens": "input-tokens"}, "openai": {"input_tokens": "tokens"}}


@dataclass(frozen=True, slots=True)
class Limit:
    """`amount` is what one request takes of a bucket that holds `size` and gets `per_second`."""

    name: Literal["requests", "input_tokens"]
    amount: float
    size: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Room:
    """`wait` is 0 if the request may go on. The bucket is full again after `resets_in` seconds."""

    remaining: int
    resets_in: float
    wait: float


def limits_of(behaviour: Behaviour, body_bytes: int) -> list[Limit]:
    """A bucket of requests holds what one second brings, one of tokens what a minute brings.

    How many tokens a request has is estimated from its size, as nobody has read it yet."""
    requests, tokens = behaviour.requests_per_second, behaviour.input_tokens_per_minute
    found = [Limit("requests", 1, max(1.0, requests), requests)] if requests is not None else []
    return found if tokens is None else [*found, Limit("input_tokens", body_bytes / 4, tokens, tokens / 60)]


class Buckets:
    def __init__(self) -> None:
        self._left: dict[tuple[str, str], tuple[float, float]] = {}  # what is left, and when that was so
        self._lock = threading.Lock()

    def take(self, provider: str, limit: Limit, now: float) -> Room:
        rate, key = limit.per_second, (provider, limit.name)
        with self._lock:
            left, since = self._left.get(key, (limit.size, now))
            left = min(limit.size, left + (now - since) * rate)
            lacking = limit.amount - left
            left -= limit.amount if lacking <= 0 else 0
            self._left[key] = (left, now)
        wait = 0.0 if lacking <= 0 else _seconds(lacking, rate)
        return Room(int(left), _seconds(limit.size - left, rate), wait)


def headers(provider: str, limit: Limit, room: Room, now: float) -> dict[str, str]:
    """Limits are told per minute. Gemini tells nothing."""
    form = _HEADERS.get(provider)
    if form is None:
        return {}
    reset = datetime.fromtimestamp(now + room.resets_in, UTC).isoformat().replace("+00:00", "Z")
    told = {
        "limit": f"{limit.per_second * 60:.0f}",
        "remaining": str(room.remaining),
        "reset": reset if provider == "anthropic" else f"{room.resets_in:.3f}s",
    }
    name = _NAMES[provider].get(limit.name, limit.name)
    return {form.format(name=name, what=what): text for what, text in told.items()}


def _seconds(amount: float, per_second: float) -> float:
    return amount / per_second if per_second else _NEVER
