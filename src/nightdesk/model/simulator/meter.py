"""The bill: every execution is counted, so that a test can say that nothing was paid twice."""

import threading
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from genai_prices import Usage, calc_price

from nightdesk.canonical import Json, canonical, digest
from nightdesk.model.simulator.caching import Spent

Lane = Literal["live", "flex", "batch"]
# What says how to answer, not what is asked.
_ASIDE = frozenset({"stream", "stream_options", "service_tier", "serviceTier"})
_CONTEXTS: dict[Lane, dict[str, str] | None] = {
    "live": None,
    "flex": {"service_tier": "flex"},
    "batch": {"processing": "batch"},
}
_PRICED_AS = {"anthropic": "anthropic", "openai": "openai", "gemini": "google"}


def identity(provider: str, body: dict[str, Json]) -> str:
    """What makes two executions the same."""
    return digest(provider, canonical({key: value for key, value in body.items() if key not in _ASIDE}))


@lru_cache(maxsize=100_000)
def price(provider: str, model: str, lane: Lane, spent: Spent) -> Decimal:
    """In dollars; nothing for a model whose price is not known."""
    usage = Usage(
        input_tokens=spent.input,
        output_tokens=spent.output,
        cache_read_tokens=spent.read,
        cache_write_tokens=spent.written,
        cache_write_5m_tokens=spent.written_5m,
        cache_write_1h_tokens=spent.written_1h,
    )

    def cost(context: dict[str, str] | None) -> Decimal:
        return calc_price(usage, model, provider_id=_PRICED_AS[provider], price_context=context).total_price

    try:
        found = cost(_CONTEXTS[lane])
        # Google sells flex at half the price, which the price list does not have.
        return found / 2 if lane == "flex" and provider == "gemini" and found == cost(None) else found
    except LookupError:
        return Decimal(0)


@dataclass
class _Row:
    id: str
    provider: str
    model: str
    lane: Lane
    count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    def add(self, spent: Spent, cost: Decimal) -> None:
        self.count += 1
        self.input_tokens += spent.input
        self.output_tokens += spent.output
        self.cache_read_tokens += spent.read
        self.cache_write_tokens += spent.written
        self.cost_usd += cost

    def shown(self) -> Json:
        return {**vars(self), "cost_usd": format(self.cost_usd, "f")}


class Meter:
    def __init__(self) -> None:
        self._rows: dict[tuple[str, Lane], _Row] = {}
        self._lock = threading.Lock()

    def count(self, id: str, provider: str, model: str, lane: Lane, spent: Spent) -> None:
        cost = price(provider, model, lane, spent)
        with self._lock:
            row = self._rows.setdefault((id, lane), _Row(id, provider, model, lane))
            row.add(spent, cost)

    def report(self, items: bool = False) -> dict[str, Json]:
        """The sums; with `items`, also a row for each identity and lane."""
        with self._lock:
            rows = [_Row(**vars(row)) for row in self._rows.values()]
        executions = sum(row.count for row in rows)
        by: Counter[str] = Counter()
        for row in rows:
            by[f"{row.provider}/{row.lane}"] += row.count
        report = {
            "executions": executions,
            "repeated": executions - len({row.id for row in rows}),
            "by": dict(sorted(by.items())),
            "cost_usd": format(sum((row.cost_usd for row in rows), Decimal(0)), "f"),
        }
        return {**report, "items": [row.shown() for row in rows]} if items else report

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
