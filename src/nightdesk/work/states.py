"""The states of a task, and the one function that changes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import Conflict, NotFound
from nightdesk.store import tasks
from nightdesk.watch import courier, events

Task = Mapping[Any, Any]  # a row of tasks

LEADS_TO: dict[str, frozenset[str]] = {
    # queued to review, and rejected to review: a decision was undone
    "queued": frozenset({"planned", "working", "waiting", "review", "expired", "cancelled", "dead"}),
    "planned": frozenset({"queued", "working", "waiting", "expired", "cancelled", "dead"}),
    # working to working: another worker took over from one that died
    "working": frozenset({"working", "queued", "waiting", "review", "done", "cancelled", "dead"}),
    # waiting to waiting: what it waited for came, and it met the next thing to wait for before any work
    "waiting": frozenset({"working", "waiting", "expired", "cancelled", "dead"}),
    "review": frozenset({"approved", "rejected", "queued", "expired", "cancelled"}),
    "approved": frozenset({"releasing", "review", "cancelled"}),
    "releasing": frozenset({"done", "approved", "dead"}),
    "dead": frozenset({"queued", "cancelled"}),
    "done": frozenset(),
    "rejected": frozenset({"review"}),
    "expired": frozenset(),
    "cancelled": frozenset(),
}
ENDS = frozenset({"done", "rejected", "expired", "cancelled", "dead"})


def lock_task(conn: sa.Connection, task_id: str) -> Task | None:
    """The task's row, held until the transaction ends."""
    found = conn.execute(sa.select(tasks).where(tasks.c.id == task_id).with_for_update()).mappings().one_or_none()
    return found


def require_task(conn: sa.Connection, task_id: str, tenant: str | None = None) -> Task:
    """The same for a caller who must name a task of its own; others' tasks do not exist for it."""
    task = lock_task(conn, task_id)
    if task is None or (tenant is not None and task["tenant"] != tenant):
        raise NotFound(f"There is no task {task_id}.", "List tasks with: nightdesk tasks list")
    return task


def move(
    conn: sa.Connection,
    at: datetime,
    task: Task,
    to: str,
    *,
    cause: str,
    actor: str,
    detail: Json = None,
    **columns: Any,
) -> None:
    """Change a locked task's state and write the event row. A waiting task says what for, a working one where.

    `columns` are further columns to set; those that belong to a state are cleared when it is left.
    """
    prior = task["state"]
    if to not in LEADS_TO[prior]:
        raise Conflict(f"Task {task['id']} is {prior}; it cannot become {to}.", "Look at it: nightdesk tasks show")
    ended = at if to in ENDS else None
    values = {"waiting_for": None, "wake_at": None, "slot": None, "rank": None} | columns
    values |= {"state": to, "updated_at": at, "ended_at": ended}
    conn.execute(tasks.update().where(tasks.c.id == task["id"]), values)
    events.record(
        conn,
        at,
        "state",
        cause=cause,
        actor=actor,
        task_id=task["id"],
        version=values.get("version", task["version"]),
        prior_state=prior,
        state=to,
        detail=detail,
    )
    if ended and task["callback_url"]:
        courier.post(conn, at, "callback", task["callback_url"], _completion(at, dict(task) | values), task["id"])


def move_all(
    conn: sa.Connection,
    at: datetime,
    ids: Sequence[str],
    prior: str,
    to: str,
    *,
    cause: str,
    actor: str,
    **columns: Any,
) -> list[str]:
    """The same for those of many tasks that are in this state, between two in which nothing waits or ends; the answer
    is which they were."""
    if to not in LEADS_TO[prior]:
        raise ValueError(f"what is {prior} cannot become {to}")
    values = {"rank": None} | columns | {"state": to, "updated_at": at}
    still = tasks.c.id.in_(ids) & (tasks.c.state == prior)
    moved = list(conn.scalars(tasks.update().where(still).values(values).returning(tasks.c.id)))
    events.record_moves(conn, at, moved, cause=cause, actor=actor, prior_state=prior, state=to)
    return moved


def _completion(at: datetime, task: Task) -> Json:
    kept = ("id", "playbook", "tenant", "key", "state", "version", "result", "error")
    data = {name: task[name] for name in kept} | {"cost_usd": str(task["cost_usd"])}
    if data["error"]:  # the traceback stays in the house
        data["error"] = {name: data["error"].get(name) for name in ("class", "type", "message", "step")}
    return {"type": f"task.{task['state']}", "timestamp": at.isoformat(), "data": data}
