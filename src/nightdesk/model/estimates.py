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


@dataclass(frozen=True, slots=True)
class Habits:
    """What the last calls of a playbook's tasks were like; None while there were none."""

    turns: float | None
    output_tokens: float | None

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
        took = _seconds_of_batches(conn, provider, model)
        return took[int(len(took) * _SLOW_SHARE)] if took else self._settings.batch_minutes * 60

    def _fresh(self, key: tuple[str, ...], look: Callable[[], T]) -> T:
        now = self._clock.now()
        at, known = self._known.get(key, (now, None))
        if known is None or now - at > _FRESH:
            known = look()
            self._known[key] = (now, known)
        return cast(T, known)


def _seconds_of_batches(conn: sa.Connection, provider: str, model: str) -> list[float]:
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
    columns = (calls.c.task_id, calls.c.status, calls.c.output_tokens, calls.c.created_at)
    newest = sa.select(*columns).order_by(calls.c.created_at.desc()).limit(_CALLS_LOOKED_THROUGH).subquery()
    last = (
        sa.select(newest.c.task_id, newest.c.output_tokens)
        .join(tasks, tasks.c.id == newest.c.task_id)
        .where(tasks.c.playbook == playbook, tasks.c.state.not_in(_UNDER_WAY), newest.c.status == "done")
        .order_by(newest.c.created_at.desc())
        .limit(_CALLS_LOOKED_AT)
        .subquery()
    )
    of_tasks = sa.select(sa.func.count(sa.distinct(last.c.task_id))).scalar_subquery()
    row = conn.execute(sa.select(sa.func.count(), sa.func.avg(last.c.output_tokens), of_tasks).select_from(last)).one()
    count, output, task_count = row
    return Habits(count / task_count, float(output or 0)) if count else Habits(None, None)
