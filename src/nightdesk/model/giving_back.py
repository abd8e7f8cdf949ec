"""Calls that came to nothing where they were: back into a wave, or back to their tasks, which choose anew."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from nightdesk.guard import budgets
from nightdesk.guard.turns import take_turn
from nightdesk.model.calls import Call
from nightdesk.model.room import ModelRoom
from nightdesk.store import Database, calls

T = TypeVar("T")

_AT_ONCE = 500

# Wakes those of these tasks that wait for a batch; the work room has it.
Wake = Callable[[sa.Connection, Sequence[str]], None]


def give_back(
    room: ModelRoom,
    conn: sa.Connection,
    which: sa.ColumnElement[bool],
    why: str,
    wake: Wake,
    *,
    counts: bool = True,
) -> int:
    """Take these calls off their way: their money is freed, and their tasks ask again, knowing why."""
    take_turn(room.house.db, conn)  # so that no other call joins these meanwhile
    columns = [calls.c[name] for name in ("task_id", "priority", "created_at", "reserved_micros", "budgets")]
    found = conn.execute(sa.select(*columns).where(which).order_by(calls.c.id).with_for_update()).mappings().all()
    if not found:
        return 0
    now = room.house.clock.now()
    failed: dict[str, Any] = {"status": "failed", "again": True, "error": why, "ended_at": now, "reserved_micros": 0}
    if not counts:
        failed |= {"batch_id": None, "attempt": calls.c.attempt - 1}
    conn.execute(calls.update().where(which).values(failed))
    settle_all(room.house.db, conn, now, ((call, 0) for call in found))
    wake_all(conn, found, wake)
    return len(found)


def wake_all(conn: sa.Connection, found: Iterable[Call], wake: Wake) -> None:
    """Wake the tasks of these calls, the most urgent first."""
    ordered = sorted(found, key=lambda call: (call["priority"], call["created_at"]))
    for some in in_pieces(list(dict.fromkeys(call["task_id"] for call in ordered))):
        wake(conn, some)


def in_pieces(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    """A few hundred at a time: a statement takes only so many parameters."""
    for start in range(0, len(all_of_them), _AT_ONCE):
        yield all_of_them[start : start + _AT_ONCE]


def rejoin(
    conn: sa.Connection, now: datetime, which: sa.ColumnElement[bool], why: str, pause_seconds: float = 0
) -> None:
    """Let these calls leave with the next wave. Their money stays reserved."""
    joined = now + timedelta(seconds=pause_seconds)
    again = {"status": "wanted", "batch_id": None, "joined_at": joined, "error": why}
    conn.execute(calls.update().where(which).values(again))


def settle_all(db: Database, conn: sa.Connection, now: datetime, spent: Iterable[tuple[Call, int]]) -> None:
    """Settle the reservations of many calls, once for each set of purses."""
    sums: dict[tuple[tuple[str, ...], ...], list[int]] = defaultdict(lambda: [0, 0])
    for call, micros in spent:
        purses = tuple(tuple(key) for key in call["budgets"])
        sums[purses][0] += call["reserved_micros"]
        sums[purses][1] += micros
    for purses, (reserved, paid) in sorted(sums.items()):
        budgets.settle(db, conn, now, purses, reserved, paid)
