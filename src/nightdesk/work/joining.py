"""Waiting for tasks that one has emitted: when all of them have come to something, and what that is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import GiveUp
from nightdesk.house import House
from nightdesk.store import drafts, runs, tasks
from nightdesk.work.context import current_step
from nightdesk.work.emit import Emit, keyed, placed, stated_key
from nightdesk.work.nightly import why_not_now
from nightdesk.work.queue import wake
from nightdesk.work.states import Task, lock_task

JOIN = "results"  # the step's name in the journal
Missing = Literal["fail", "cached", "without"]

# Nothing more comes of a task in any other state before a person has acted, if ever.
_UNDER_WAY = ("queued", "planned", "working", "waiting")
_GOOD = ("done", "approved", "releasing")
# What is parked for one of these may be called when the tasks are there; what is not, will look by itself.
_CALLABLE = ("tasks", "batch", "person")
_MOST_AT_ONCE = 500
_LISTED = 5
_t = tasks.c


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a task. `draft`: it lies on the desk as yet. `cached`: an earlier task's stands in its place."""

    task_id: str
    playbook: str
    state: str
    value: Json
    draft: bool = False
    cached: bool = False


class Children:
    """The tasks that one task emits."""

    def __init__(self, house: House, task: Task, emit: Emit) -> None:
        self._house = house
        self._task = task
        self._emit = emit

    async def emit(self, playbook: str, values: Json, key: str | None) -> str:
        """To be called within a step, whose number is the child's place."""
        task, step = self._task, current_step()
        name = placed(task, step.occurrence) if key is None else keyed(task, key)
        return await self._house.db.commit(lambda conn: self._emit(self._house, conn, task, playbook, values, name))

    async def are_settled(self, ids: Sequence[str]) -> bool:
        return await self._house.db.commit(lambda conn: self._are_settled(conn, ids))

    async def results(self, ids: Sequence[str], missing: Missing) -> list[Json]:
        """What came of each, in this order."""
        return await self._house.db.commit(lambda conn: self._results(conn, ids, missing))

    def _are_settled(self, conn: sa.Connection, ids: Sequence[str]) -> bool:
        children = conn.execute(sa.select(_t.id, _t.state).where(_t.parent_id == self._task["id"])).all()
        states = {row.id: row.state for row in children}
        if strange := [task_id for task_id in ids if task_id not in states]:
            raise GiveUp(
                f"This task did not emit {', '.join(map(str, strange[:_LISTED]))}; it may wait for its own alone."
            )
        return not any(states[task_id] in _UNDER_WAY for task_id in ids)

    def _results(self, conn: sa.Connection, ids: Sequence[str], missing: Missing) -> list[Json]:
        passed = (drafts.c.task_id == _t.id) & (drafts.c.version == _t.version) & drafts.c.passed
        query = sa.select(tasks, drafts.c.hash.is_not(None).label("has_draft")).outerjoin(drafts, passed)
        rows = conn.execute(query.where(_t.parent_id == self._task["id"])).mappings()
        children = {row["id"]: row for row in rows}
        found = [_result(children[task_id]) for task_id in ids]
        if missing == "cached":
            found = [result or _earlier(conn, children[task_id]) for task_id, result in zip(ids, found, strict=True)]
        lacking = [children[task_id] for task_id, result in zip(ids, found, strict=True) if result is None]
        if lacking and missing != "without":
            raise GiveUp(_told(lacking, len(ids), missing))
        return [asdict(result) if result else None for result in found]


def is_joined(conn: sa.Connection, task: Task) -> bool:
    """Whether the task waits for others, and one of its waits has come to its end."""
    open_joins = sa.select(runs.c.input).where(
        runs.c.task_id == task["id"], runs.c.version == task["version"], runs.c.step == JOIN, runs.c.status != "done"
    )
    awaited = [row["tasks"] for row in conn.scalars(open_joins)]
    if not awaited:
        return False
    children = sa.select(_t.id).where(_t.parent_id == task["id"], _t.state.in_(_UNDER_WAY))
    under_way = set(conn.scalars(children))
    return any(under_way.isdisjoint(ids) for ids in awaited)


def wake_parent(house: House, conn: sa.Connection, at: datetime, child: Task) -> None:
    """The child has come to something: if its parent was waiting for nothing else, it goes on."""
    parent = lock_task(conn, child["parent_id"])
    if parent is not None and _is_callable(parent) and is_joined(conn, parent):
        if parent["until"] and parent["until"] <= at and child["until"] and not why_not_now(conn, at, child):
            # What it waited for took until another night, in which it goes on.
            night = {"night": child["night"], "until": child["until"]}
            conn.execute(tasks.update().where(_t.id == parent["id"]), night)
        wake(house, conn, parent)


def wake_joined(house: House) -> int:
    """Wake those whose tasks ended otherwise than by a leg: cancelled, expired, or by a wake-up that was lost."""
    child = tasks.alias()
    news = sa.exists(
        sa.select(1).where(
            child.c.parent_id == _t.id, child.c.state.not_in(_UNDER_WAY), child.c.updated_at >= _t.updated_at
        )
    )
    waiting = sa.select(tasks).where(_t.waiting_for == "tasks", _t.rank.is_(None), news)
    waiting = waiting.order_by(_t.priority, _t.created_at).limit(_MOST_AT_ONCE)
    with house.db.write() as conn:
        found = conn.execute(waiting.with_for_update(skip_locked=True, of=tasks)).mappings().all()
        joined = [task for task in found if is_joined(conn, task)]
        for task in joined:
            wake(house, conn, task)
    return len(joined)


def read_results(saved: Sequence[Json]) -> list[Result | None]:
    return [Result(**row) if row else None for row in saved]


def _is_callable(task: Task) -> bool:
    return task["state"] == "waiting" and task["waiting_for"] in _CALLABLE and task["rank"] is None


def _result(task: Task) -> Result | None:
    on_desk = task["state"] == "review" and task["has_draft"]
    if not (on_desk or task["state"] in _GOOD):
        return None
    return Result(task["id"], task["playbook"], task["state"], task["result"], draft=on_desk)


def _earlier(conn: sa.Connection, task: Task) -> Result | None:
    """The last good result of the same playbook, tenant and stated key; where no key was stated, of any."""
    key = stated_key(task["key"])
    query = sa.select(_t.id, _t.playbook, _t.state, _t.result).where(
        _t.playbook == task["playbook"], _t.tenant == task["tenant"], _t.state.in_(_GOOD), _t.id != task["id"]
    )
    if key is not None:
        query = query.where(_t.key.endswith(f":{key}", autoescape=True))
    row = conn.execute(query.order_by(_t.updated_at.desc()).limit(1)).one_or_none()
    return Result(row.id, row.playbook, row.state, row.result, cached=True) if row else None


def _told(lacking: Sequence[Task], of: int, missing: Missing) -> str:
    listed = ", ".join(f"{task['id']} of {task['playbook']} is {task['state']}" for task in lacking[:_LISTED])
    earlier = " and there is no earlier result either" if missing == "cached" else ""
    return f"{len(lacking)} of {of} results are missing{earlier}: {listed}."
