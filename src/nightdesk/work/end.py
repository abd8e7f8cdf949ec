"""The end of a leg: what became of it, in one transaction."""

import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.model import calls
from nightdesk.playbook import Playbook
from nightdesk.store import tasks
from nightdesk.work.begin import Begun, limits_of, working
from nightdesk.work.draft import Draft, Lay, store_draft
from nightdesk.work.emit import Emit, emit_then
from nightdesk.work.failure import classify, describe, retry_delay
from nightdesk.work.joining import is_joined, wake_parent
from nightdesk.work.nightly import OVER
from nightdesk.work.pause import Wait
from nightdesk.work.queue import dispatch_next, wake
from nightdesk.work.states import Task, lock_task, move

_LONGEST_CAUSE = 2_000


@dataclass(frozen=True, slots=True)
class Finished:
    """The playbook returned, and its gates have looked at what it made."""

    draft: Draft


@dataclass(frozen=True, slots=True)
class Failed:
    error: BaseException
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """It waits for one or more things; the next leg starts when the first of them comes."""

    waits: list[Wait]


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The worker leaves; the rest of the leg is for another."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """The night is over; the rest of the leg is for the next."""


Outcome = Finished | Failed | Parked | HandedBack | CutOff


class LegEnd:
    """Writes the end of one leg. Built once per leg, run in a transaction that may have to be repeated.

    `lay` lays before a person what only a person can decide; `emit` hands in what comes then.
    """

    def __init__(
        self, house: House, playbook: Playbook | None, begun: Begun, outcome: Outcome, lay: Lay, emit: Emit
    ) -> None:
        self._house = house
        self._playbook = playbook
        self._begun = begun
        self._outcome = outcome
        self._lay = lay
        self._emit = emit
        self._rng = random.Random(f"{begun.task['id']}:{begun.dispatch}")

    def write(self, conn: sa.Connection) -> str | None:
        """The state that the task is in now, or None if it was no longer this worker's."""
        task = lock_task(conn, self._begun.task["id"])
        if task is None or task["state"] != "working" or task["dispatch"] != self._begun.dispatch:
            return None
        now = self._house.clock.now()
        worked = round((now - self._begun.at).total_seconds() * 1000)
        columns = {"worked_ms": task["worked_ms"] + max(0, worked)}
        state = self._settle(conn, now, task, columns)
        self._let_next_in(conn, task)
        if task["parent_id"] and state in ("done", "review", "dead"):
            wake_parent(self._house, conn, now, task)
        return state

    def _settle(self, conn: sa.Connection, now: datetime, task: Task, columns: dict[str, Any]) -> str:
        match self._outcome:
            case Finished(draft):
                return self._finish(conn, now, task, draft, columns)
            case Failed(error, step):
                return self._fail(conn, now, task, error, step, columns)
            case Parked(waits):
                return self._park(conn, now, task, waits, columns)
            case HandedBack():
                columns |= dispatch_next(self._house, conn, task) | {"strikes": max(0, task["strikes"] - 1)}
                return self._to(conn, now, task, "queued", "its worker was told to leave", columns)
            case CutOff():
                return self._wait(conn, now, task, "time", None, OVER, columns | {"strikes": 0})

    def _finish(self, conn: sa.Connection, now: datetime, task: Task, draft: Draft, columns: dict[str, Any]) -> str:
        assert self._playbook is not None
        is_internal = self._playbook.risk == "internal"
        if not is_internal or self._playbook.gates:
            draft = store_draft(self._house.db, conn, now, task, draft)
        columns |= {"result": draft.payload, "error": None, "strikes": 0, "failures": 0}
        if draft.failing:
            cause = f"a draft failed its gates: {'; '.join(verdict.sentence for verdict in draft.failing)}"
            told = {"gates": [verdict.gate for verdict in draft.failing]}
            return self._ask_person(conn, now, task, draft, cause[:_LONGEST_CAUSE], columns, told)
        # The risk tier decides who has the last word; for an internal playbook it is nobody.
        if is_internal:
            return self._hand_on(conn, now, task, draft, columns)
        return self._ask_person(conn, now, task, draft, "a draft is ready", columns)

    def _hand_on(self, conn: sa.Connection, now: datetime, task: Task, draft: Draft, columns: dict[str, Any]) -> str:
        """Done, once what comes then was handed in. Where that cannot be, a person has to look."""
        assert self._playbook is not None
        faults = emit_then(self._emit, self._house, conn, now, task, self._playbook, draft.payload)
        if faults:
            return self._ask_person(conn, now, task, None, "; ".join(faults)[:_LONGEST_CAUSE], columns)
        return self._to(conn, now, task, "done", "finished", columns)

    def _fail(
        self, conn: sa.Connection, now: datetime, task: Task, error: BaseException, step: str | None, columns: Any
    ) -> str:
        error_row = describe(error, step)
        told = {name: value for name, value in error_row.items() if name != "traceback"}
        columns |= {"error": error_row, "failures": task["failures"] + 1}
        calls.forgive(conn, task["id"], task["version"])
        retries = self._playbook.limits.retries if self._playbook else 0
        kind = classify(error)
        if kind == "person":
            return self._ask_person(conn, now, task, None, f"needs a person: {told['message']}", columns, told)
        if kind in ("overrun", "refused") or columns["failures"] > retries:
            return self._to(conn, now, task, "dead", f"{kind}: {told['message']}", columns, told)
        delay = retry_delay(columns["failures"], self._rng)
        return self._wait(conn, now, task, "retry", delay, f"{kind}: {told['message']}", columns, told)

    def _park(self, conn: sa.Connection, now: datetime, task: Task, waits: list[Wait], columns: dict[str, Any]) -> str:
        ends = [wait.until for wait in waits if wait.until is not None]
        delay = max(0.0, (min(ends) - now).total_seconds()) if ends else None
        columns["strikes"] = 0
        if calls.arrived(conn, [wait.call for wait in waits if wait.call]):
            delay = 0.0  # while the leg came to its end, an answer that it would wait for has come
        if any(wait.kind == "tasks" for wait in waits) and is_joined(conn, task):
            delay = 0.0
        return self._wait(conn, now, task, waits[0].kind, delay, waits[0].why, columns)

    def _wait(
        self,
        conn: sa.Connection,
        now: datetime,
        task: Task,
        kind: str,
        delay: float | None,
        cause: str,
        columns: dict[str, Any],
        detail: Json = None,
    ) -> str:
        """Make the task a row. With a delay its next leg is queued for then; else whoever brings the thing wakes it."""
        columns["waiting_for"] = kind
        if delay is not None:
            columns |= dispatch_next(self._house, conn, task, max(delay, 0.001))
            columns["wake_at"] = datetime.fromtimestamp(now.timestamp() + delay, tz=now.tzinfo)
        return self._to(conn, now, task, "waiting", cause, columns, detail)

    def _ask_person(
        self,
        conn: sa.Connection,
        now: datetime,
        task: Task,
        draft: Draft | None,
        cause: str,
        columns: dict[str, Any],
        detail: Json = None,
    ) -> str:
        self._lay(conn, self._house, task, draft, cause)
        return self._to(conn, now, task, "review", cause, columns, detail)

    def _to(
        self,
        conn: sa.Connection,
        now: datetime,
        task: Task,
        state: str,
        cause: str,
        columns: dict[str, Any],
        detail: Json = None,
    ) -> str:
        move(conn, now, task, state, cause=cause, actor=task["slot"], detail=detail, **columns)
        return state

    def _let_next_in(self, conn: sa.Connection, task: Task) -> None:
        """If the leg held one of a limited number of places, wake one task that waits for its turn there."""
        for column, name, _limit in limits_of(self._house, task["playbook"], task["tenant"]):
            wake_turns(self._house, conn, column, name, 1)


def wake_turns(house: House, conn: sa.Connection, column: sa.Column[str], name: str, places: int) -> int:
    """Wake up to so many of those that wait for a turn under this limit, most urgent and oldest first."""
    waiting = (
        sa.select(tasks)
        .where(tasks.c.waiting_for == "turn", tasks.c.rank.is_(None), column == name)
        .order_by(tasks.c.priority, tasks.c.created_at)
        .limit(places)
        .with_for_update(skip_locked=True)
    )
    chosen = list(conn.execute(waiting).mappings())
    for task in chosen:
        wake(house, conn, task)
    return len(chosen)


def fill_turns(house: House, conn: sa.Connection, playbook: str, tenant: str) -> int:
    """Wake as many waiting tasks as there are free places: what a lost wake-up left behind."""
    return sum(
        wake_turns(house, conn, column, name, max(0, limit - working(conn, column, name)))
        for column, name, limit in limits_of(house, playbook, tenant)
    )
