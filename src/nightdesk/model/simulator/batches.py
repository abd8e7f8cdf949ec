"""Batches of any provider: how they age, end, and what becomes of each of their items."""

import asyncio
import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from nightdesk.canonical import Json, digest
from nightdesk.model.simulator.dialect import Dialect
from nightdesk.model.simulator.model import ENDLESS, Model
from nightdesk.model.simulator.prompts import Prompt
from nightdesk.model.simulator.refusals import Refusal, error_body

Kind = Literal["done", "error", "expired", "cancelled"]
End = Literal["", "time", "cancel", "expiry", "failure"]
# So many items are run before other requests get a turn.
_AT_ONCE = 20


@dataclass(slots=True)
class Item:
    """`problem` is why it will not run; the provider only finds out when the batch is at work."""

    name: str
    body: dict[str, Json]
    problem: Refusal | None = None


@dataclass(slots=True)
class Result:
    kind: Kind
    status: int = 200
    body: Json = None
    refusal: Refusal | None = None


@dataclass
class Batch:
    id: str
    dialect: Dialect
    items: list[Item]
    created_at: float
    ready_at: float
    expires_at: float
    model: str = ""
    label: dict[str, Json] = field(default_factory=dict)
    cancel_at: float | None = None
    ended_at: float | None = None
    end: End = ""
    failure: Refusal | None = None
    results: list[Result | None] = field(default_factory=list)
    expiring: frozenset[int] = frozenset()
    failing: frozenset[int] = frozenset()
    fail_status: int = 500
    fail_code: str = ""
    queued_tokens: int = 0

    def progress(self, at: float) -> int:
        """How many of its items are through at this time."""
        share = (at - self.created_at) / max(self.ready_at - self.created_at, 1e-9)
        return int(len(self.items) * min(1.0, share))

    def counts(self) -> Counter[str]:
        return Counter(result.kind for result in self.results if result is not None)


class Shelf:
    """Every batch there is, in the order of creation."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._batches: dict[str, Batch] = {}
        self._numbers = itertools.count(1)
        self._running = threading.RLock()

    def create(self, prefix: str, dialect: Dialect, items: list[Item], hours: float) -> Batch:
        """A batch with the faults that are set for it now; it is not on the shelf yet."""
        settings, now, provider = self._model.behaviour, self._model.now(), dialect.provider
        batch = Batch(
            f"{prefix}{next(self._numbers):08d}",
            dialect,
            items,
            now,
            now + settings.batch_seconds,
            now + hours * 3600,
            model=str(items[0].body.get("model", "")) if items else "",
            results=[None] * len(items),
        )
        if fault := self._model.faults.take("expire", provider):
            batch.expiring = _share_of(items, fault.share, "expire")
        if fault := self._model.faults.take("fail", provider):
            batch.failing = _share_of(items, fault.share, "fail")
            batch.fail_status, batch.fail_code = fault.status, fault.code
        if settings.queued_tokens is not None:
            batch.queued_tokens = sum(_prompt_tokens(dialect, item) for item in items)
        return batch

    async def add(self, batch: Batch) -> None:
        """Put it on the shelf. After that the answer may get lost or never come: `create_lost` and `create_hang`."""
        self._batches[batch.id] = batch
        self._model.fail_if("create_lost", batch.dialect.provider)
        if fault := self._model.faults.take("create_hang", batch.dialect.provider):
            await asyncio.sleep(fault.seconds or ENDLESS)

    def overfull(self, batch: Batch) -> bool:
        """Whether the batch would bring the tokens that wait over the limit."""
        limit, provider = self._model.behaviour.queued_tokens, batch.dialect.provider
        waiting = (other for other in self.all(provider) if not other.end and other.model == batch.model)
        return limit is not None and sum(other.queued_tokens for other in waiting) + batch.queued_tokens > limit

    def get(self, provider: str, id: str) -> Batch:
        self._model.fail_if("poll_refused", provider)
        batch = self._batches.get(id)
        if batch is None or batch.dialect.provider != provider or self._hidden(batch):
            raise Refusal(404, f"No batch found with id '{id}'.")
        return self._aged(batch)

    def listed(self, provider: str) -> list[Batch]:
        """For a client, who may be refused."""
        self._model.fail_if("poll_refused", provider)
        return self.all(provider)

    def all(self, provider: str = "") -> list[Batch]:
        """The newest first."""
        found = [batch for batch in self._batches.values() if provider in ("", batch.dialect.provider)]
        return [self._aged(batch) for batch in reversed(found)]

    def delete(self, batch: Batch) -> None:
        del self._batches[batch.id]

    def cancel(self, batch: Batch) -> None:
        if not batch.end and batch.cancel_at is None:
            batch.cancel_at = self._model.now()
            self._aged(batch)

    async def settle(self, batch: Batch) -> None:
        """Run every item of an ended batch that has not been run; others are served meanwhile."""
        for index, result in enumerate(batch.results):
            if result is None:
                self.result(batch, index)
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def settle_now(self) -> None:
        """The same for all ended batches, for a caller that does not share a thread with the server."""
        for batch in self.all():
            if batch.end not in ("", "failure"):
                for index in range(len(batch.items)):
                    self.result(batch, index)

    def result(self, batch: Batch, index: int) -> Result:
        """What became of the item; it is run when this is first asked."""
        with self._running:
            known = batch.results[index]
            if known is None:
                known = batch.results[index] = self._run(batch, index)
            return known

    def _run(self, batch: Batch, index: int) -> Result:
        item = batch.items[index]
        if batch.end == "expiry" or (batch.end == "time" and index in batch.expiring):
            return Result("expired")
        if batch.end == "cancel" and index >= batch.progress(batch.cancel_at or 0.0):
            return Result("cancelled")
        try:
            if index in batch.failing:
                raise Refusal(batch.fail_status, code=batch.fail_code)
            if item.problem:
                raise item.problem
            return Result("done", 200, self._model.execute(batch.dialect, item.body, "batch"))
        except Refusal as refusal:
            return Result("error", refusal.status, error_body(batch.dialect.provider, refusal), refusal)

    def _hidden(self, batch: Batch) -> bool:
        """Whether the fault `not_found` covers it: for some seconds after creation, or so many times."""
        fault = self._model.faults.active("not_found", batch.dialect.provider)
        if fault is None:
            return False
        if fault.seconds:
            return self._model.now() - batch.created_at < fault.seconds
        return self._model.faults.take("not_found", batch.dialect.provider) is not None

    def _aged(self, batch: Batch) -> Batch:
        """The batch, ended if it is time for that."""
        if not batch.end:
            batch.end, batch.ended_at = self._ending(batch, self._model.now())
        return batch

    def _ending(self, batch: Batch, now: float) -> tuple[End, float | None]:
        if batch.failure is not None:
            return "failure", batch.created_at
        stuck = self._model.faults.active("stuck", batch.dialect.provider) is not None
        ready = batch.ready_at if not stuck else float("inf")
        if batch.cancel_at is not None and batch.cancel_at < ready:
            end_at, end = batch.cancel_at + self._model.behaviour.cancel_seconds, "cancel"
        else:
            end_at, end = ready, "time"
        if batch.expires_at < end_at:
            end_at, end = batch.expires_at, "expiry"
        return (end, end_at) if now >= end_at else ("", None)  # type: ignore[return-value]


def _share_of(items: list[Item], share: float, salt: str) -> frozenset[int]:
    """Exactly this share of the items, chosen by their names."""
    order = sorted(range(len(items)), key=lambda index: digest(salt, items[index].name))
    return frozenset(order[: round(len(items) * share)])


def _prompt_tokens(dialect: Dialect, item: Item) -> int:
    if item.problem:
        return 0
    prompt: Prompt = dialect.read(item.body)
    return prompt.input_tokens
