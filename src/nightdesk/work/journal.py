"""The journal: one row in `runs` per step of a task's version, the checkpoint and the paper trail in one.

A row is written before a step's body starts and completed after it ends. Both writes are refused to a
worker whose dispatch number is no longer the task's: that worker has lost the task.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, canonical, digest, jsonable, shown_as_json
from nightdesk.errors import AskPerson, GiveUp, LegLost
from nightdesk.house import House
from nightdesk.store import Database, events, runs, tasks
from nightdesk.watch.events import record
from nightdesk.work.begin import Begun
from nightdesk.work.failure import classify, message_of

Row = Mapping[Any, Any]  # of runs
Key = tuple[str, int]
Spent = Mapping[str, Any]  # on models in a step: the columns model, tools and cost_usd
NOTHING: Spent = {"model": None, "tools": None, "cost_usd": Decimal(0)}
_ENDING = ("status", "output", "error_class", "error", "ended_at", "duration_ms", "model", "tools", "cost_usd")


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of a step in this leg, and the row it already has, if any."""

    step: str
    occurrence: int
    position: int
    input: Json
    input_hash: str
    saved: Row | None

    @property
    def is_done(self) -> bool:
        return self.saved is not None and self.saved["status"] == "done"


class Journal:
    def __init__(self, house: House, begun: Begun, on_code_change: str) -> None:
        rows, task = begun.rows, begun.task
        self._house = house
        self._task = task
        self._dispatch = begun.dispatch
        self._on_code_change = on_code_change
        self._rows = {(row["step"], row["occurrence"]): row for row in rows}
        self._asked: set[Key] = set()
        self._expected = _in_order(rows)
        self._occurrences: Counter[str] = Counter()
        self._next_position = max((row["position"] for row in rows), default=0) + 1
        self._started: dict[Key, datetime] = {}
        self._without_progress = task["strikes"] > 0 or task["failures"] > 0

    async def enter(self, step: str, input: Json, *, terms: Json = None) -> Entry:
        """The journal's entry for the next call of this step; a mismatch with what is saved is a divergence.

        `terms` are stored with the input but are no part of it: they may differ in a replay.
        """
        self._occurrences[step] += 1
        key = (step, self._occurrences[step])
        saved = self._rows.get(key)
        clean = shown_as_json(input)
        stored = clean if terms is None else (clean or {}) | terms
        entry = Entry(*key, self._position(saved), stored, digest(canonical(clean)), saved)
        await self._check(entry)
        self._asked.add(key)
        return entry

    async def start(self, entry: Entry) -> int:
        """Write the intent to run the step; the answer is the number of this attempt."""
        attempt = await self._write_start(entry, "running")
        if attempt is None:
            raise LegLost
        return attempt

    async def wait(self, entry: Entry) -> Json:
        """Write a step that waits for something outside; the answer is the input it was first given."""
        if entry.saved is not None:
            return entry.saved["input"]
        if await self._write_start(entry, "waiting") is None:
            raise LegLost
        return entry.input

    async def complete(self, entry: Entry, output: Json, spent: Spent = NOTHING) -> Json:
        """Save the step's output, and what it spent on models. From here on the step is never run again."""
        try:
            clean = jsonable(output)
        except ValueError as error:
            refused = GiveUp(f"Step {entry.step} returned something that JSON cannot hold: {error}")
            await self.fail(entry, refused, spent)
            raise refused from error
        await self._write_end(entry, {"status": "done", "output": clean, "error_class": None, "error": None}, spent)
        self._without_progress = False
        return clean

    async def fail(self, entry: Entry, error: BaseException, spent: Spent = NOTHING) -> None:
        failed = {"status": "failed", "output": None, "error_class": classify(error), "error": message_of(error)}
        await self._write_end(entry, failed, spent)

    async def finish(self) -> None:
        """The playbook has returned: saved steps that it no longer asks for are a divergence."""
        unused = [_name(*key) for key in self._rows.keys() - self._asked]
        if unused:
            await self._diverged("unused", f"saved steps were not asked for: {', '.join(sorted(unused))}")

    async def check_calls(self, unasked: Sequence[str]) -> None:
        """The same for calls to models that were answered in an earlier leg."""
        if unasked:
            await self._diverged("calls", f"answered calls to models were not asked for: {', '.join(unasked)}")

    def _position(self, saved: Row | None) -> int:
        if saved is not None:
            return int(saved["position"])
        self._next_position += 1
        return self._next_position - 1

    async def _check(self, entry: Entry) -> None:
        name = _name(entry.step, entry.occurrence)
        if entry.saved is not None and entry.saved["input_hash"] != entry.input_hash:
            await self._diverged("input", f"{name} is given another input than the saved one")
        while self._expected and self._expected[0] in self._asked:
            self._expected.popleft()
        if self._expected and self._expected[0] != (entry.step, entry.occurrence):
            overtaken = _name(*self._expected[0])
            self._expected.clear()
            await self._diverged("order", f"{name} is asked for before {overtaken}, which is saved as earlier")

    async def _diverged(self, what: str, sentence: str) -> None:
        """Record that code and journal disagree. By default the saved output stands; a playbook may stop instead."""
        await self._house.db.commit(lambda conn: self._record_divergence(conn, what, sentence))
        if self._on_code_change == "person":
            raise AskPerson(f"The playbook's code has changed under a half-done task: {sentence}.")

    def _record_divergence(self, conn: sa.Connection, what: str, sentence: str) -> None:
        """Once: every later leg meets the same divergence again."""
        told = sa.select(events.c.id).where(
            events.c.task_id == self._task["id"], events.c.kind == "divergence", events.c.cause == sentence
        )
        if conn.execute(told.limit(1)).first() is None:
            record(
                conn,
                self._house.clock.now(),
                "divergence",
                cause=sentence,
                actor="worker",
                task_id=self._task["id"],
                version=self._task["version"],
                detail={"what": what, "handled": self._on_code_change},
            )

    async def _write_start(self, entry: Entry, status: str) -> int | None:
        now = self._house.clock.now()
        values = self._address(entry) | {
            "p_position": entry.position,
            "p_status": status,
            "p_now": now,
            "p_input": entry.input,
            "p_input_hash": entry.input_hash,
        }
        statement = _start_statement(self._house.db)
        attempt = await self._house.db.commit(lambda conn: conn.execute(statement, values).scalar_one_or_none())
        self._started[entry.step, entry.occurrence] = now
        return attempt

    async def _write_end(self, entry: Entry, values: dict[str, Any], spent: Spent) -> None:
        now = self._house.clock.now()
        took = now - self._started.pop((entry.step, entry.occurrence), now)
        values |= {"ended_at": now, "duration_ms": max(0, round(took.total_seconds() * 1000)), **spent}
        if not await self._house.db.commit(lambda conn: self._end(conn, entry, values)):
            raise LegLost

    def _end(self, conn: sa.Connection, entry: Entry, values: dict[str, Any]) -> bool:
        written = conn.execute(_END, self._address(entry) | values).rowcount
        if written and self._without_progress and values["status"] == "done":
            # A completed step is progress: the counts of starts and failures without it begin anew.
            conn.execute(tasks.update().where(tasks.c.id == self._task["id"]), {"strikes": 1, "failures": 0})
        return bool(written)

    def _address(self, entry: Entry) -> dict[str, Any]:
        return {
            "p_task": self._task["id"],
            "p_version": self._task["version"],
            "p_step": entry.step,
            "p_occurrence": entry.occurrence,
            "p_dispatch": self._dispatch,
        }


def _name(step: str, occurrence: int) -> str:
    return f"{step} ({occurrence})" if occurrence > 1 else step


def _in_order(rows: list[Row]) -> deque[Key]:
    """The saved steps in their order, or nothing if two were ever in progress at once: then order means nothing."""
    ordered = sorted(rows, key=lambda row: row["position"])
    for before, after in pairwise(ordered):
        if before["ended_at"] is None or before["ended_at"] > after["started_at"]:
            return deque()
    return deque((row["step"], row["occurrence"]) for row in ordered)


def _param(name: str, column: sa.Column[Any]) -> sa.BindParameter[Any]:
    return sa.bindparam(f"p_{name}", type_=column.type)


_IS_HELD = sa.and_(
    tasks.c.id == sa.bindparam("p_task"), tasks.c.dispatch == sa.bindparam("p_dispatch"), tasks.c.state == "working"
)
_END = (
    runs.update()
    .where(
        runs.c.task_id == sa.bindparam("p_task"),
        runs.c.version == sa.bindparam("p_version"),
        runs.c.step == sa.bindparam("p_step"),
        runs.c.occurrence == sa.bindparam("p_occurrence"),
        runs.c.dispatch == sa.bindparam("p_dispatch"),
        sa.exists().where(_IS_HELD),
    )
    .values({name: sa.bindparam(name, type_=runs.c[name].type) for name in _ENDING})
)


@cache
def _start_statement(db: Database) -> Any:
    """One statement: fence, insert or take over the row, count the attempt. No row comes back to a loser."""
    now = _param("now", runs.c.started_at)
    values = {
        "task_id": tasks.c.id,
        "version": _param("version", runs.c.version),
        "step": _param("step", runs.c.step),
        "occurrence": _param("occurrence", runs.c.occurrence),
        "position": _param("position", runs.c.position),
        "status": _param("status", runs.c.status),
        "attempt": sa.literal(1),
        "dispatch": tasks.c.dispatch,
        "started_at": now,
        "input": _param("input", runs.c.input),
        "input_hash": _param("input_hash", runs.c.input_hash),
    }
    insert = db.upsert(runs).from_select(list(values), sa.select(*values.values()).where(_IS_HELD))
    again = {name: insert.excluded[name] for name in ("status", "dispatch", "started_at")}
    cleared = dict.fromkeys(("ended_at", "duration_ms", "error_class", "error"))
    return insert.on_conflict_do_update(
        index_elements=["task_id", "version", "step", "occurrence"],
        set_=again | cleared | {"attempt": runs.c.attempt + 1},
        where=runs.c.status != "done",
    ).returning(runs.c.attempt)
