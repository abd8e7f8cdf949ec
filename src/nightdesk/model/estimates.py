"""What was seen so far: how long batches take, how many turns a playbook's tasks make, how long answers are."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.settings import ModelSettings
from nightdesk.store import batches, calls, tasks

T = TypeVar("T")

_FRESH = timedelta(seconds=30)
_COUNTED = ("input_tokens", "output_tokens", "cache_read_tokens")
_BATCHES_LOOKED_AT = 20
_CALLS_LOOKED_AT = 200
# Of all playbooks, so that it takes no longer the more there are.
_CALLS_LOOKED_THROUGH = 5_000
# Tasks that may make more turns yet.
_UNDER_WAY = ("queued", "planned", "working", "waiting")
# Of a batch's time the estimate is the slow end of what was seen: a night that waits in vain costs more.
_SLOW_SHARE = 0.8
# Before anything was seen: a task with tools takes some turns, one without takes one.
_TURNS_WITH_TOOLS = 6.0
_OUTPUT_TOKENS = 500.0
# Tokens are estimated on the high side, so that the worst case holds.
_INPUT_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Habits:
    """What the last calls of a playbook's tasks were like; None while there were none."""

    turns: float | None = None
    output_tokens: float | None = None
    # The tokens of the input as counted in the end, of those that were estimated.
    input_share: float | None = None
    # The tokens that batches read from a cache, of all of their input.
    batch_reads: float | None = None

    def input_to_expect(self, estimated: int) -> int:
        return round(estimated * (self.input_share or _INPUT_SHARE))

    def batch_hits(self, prefix_of_input: float, prior: float) -> float:
        """The share of a prefix that a batch finds in the cache, the prefix being so much of the input."""
        return prior if self.batch_reads is None else min(1.0, self.batch_reads / max(prefix_of_input, 0.01))

    def turns_to_expect(self, *, tools: bool) -> float:
        return self.turns or (_TURNS_WITH_TOOLS if tools else 1.0)

    def output_to_expect(self, limit: int) -> float:
        return min(self.output_tokens or _OUTPUT_TOKENS, limit)


class Estimates:
    """Read at most every half minute for each question: they change slowly, and are asked for with every call."""

    def __init__(self, settings: ModelSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[datetime, Any]] = {}

    def batch_seconds(self, conn: sa.Connection, provider: str, model: str) -> float:
        return self._fresh(("batch", provider, model), lambda: self._batch_seconds(conn, provider, model))

    def habits(self, conn: sa.Connection, playbook: str) -> Habits:
        return self._fresh(("habits", playbook), lambda: _habits(conn, playbook))

    def _batch_seconds(self, conn: sa.Connection, provider: str, model: str) -> float:
        took = seconds_of_batches(conn, provider, model)
        return took[int(len(took) * _SLOW_SHARE)] if took else self._settings.batch_minutes * 60

    def _fresh(self, key: tuple[str, ...], look: Callable[[], T]) -> T:
        now = self._clock.now()
        at, known = self._known.get(key, (now, None))
        if known is None or now - at > _FRESH:
            known = look()
            self._known[key] = (now, known)
        return cast(T, known)


def seconds_of_batches(conn: sa.Connection, provider: str, model: str) -> list[float]:
    """The times of the last batches of this provider and model, shortest first."""
    query = (
        sa.select(batches.c.submitted_at, batches.c.ended_at)
        .where(batches.c.provider == provider, batches.c.model.in_((model, "*")), batches.c.status == "ended")
        .where(batches.c.submitted_at.is_not(None), batches.c.error.is_(None))  # none that was called back
        .order_by(batches.c.ended_at.desc())
        .limit(_BATCHES_LOOKED_AT)
    )
    return sorted((row.ended_at - row.submitted_at).total_seconds() for row in conn.execute(query))


def _habits(conn: sa.Connection, playbook: str) -> Habits:
    columns = [calls.c[name] for name in ("task_id", "status", "lane", "created_at", "input_estimate", *_COUNTED)]
    newest = sa.select(*columns).order_by(calls.c.created_at.desc()).limit(_CALLS_LOOKED_THROUGH).subquery()
    last = (
        sa.select(newest)
        .join(tasks, tasks.c.id == newest.c.task_id)
        .where(tasks.c.playbook == playbook, tasks.c.state.not_in(_UNDER_WAY), newest.c.status == "done")
        .order_by(newest.c.created_at.desc())
        .limit(_CALLS_LOOKED_AT)
        .subquery()
    )
    in_batch = last.c.lane == "batch"
    sums = (
        sa.func.count(sa.distinct(last.c.task_id)).label("tasks"),
        sa.func.avg(last.c.output_tokens).label("output"),
        _share(last.c.input_tokens, last.c.input_estimate).label("input_share"),
        _share(last.c.cache_read_tokens, last.c.input_tokens, in_batch).label("batch_reads"),
    )
    row = conn.execute(sa.select(sa.func.count().label("calls"), *sums).select_from(last)).one()
    if not row.calls:
        return Habits()
    return Habits(row.calls / row.tasks, float(row.output or 0), row.input_share, row.batch_reads)


def _share(part: Any, whole: Any, which: Any = None) -> sa.ColumnElement[Any]:
    """How much of the whole the part is, over these rows; NULL where there are none."""
    parts, wholes = (sa.func.sum(sum_ if which is None else sa.case((which, sum_))) for sum_ in (part, whole))
    return sa.cast(parts, sa.Double) / sa.func.nullif(wholes, 0)
