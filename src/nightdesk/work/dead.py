"""Dead letters: what could not be done, with everything needed to see why and to try again."""

from collections.abc import Sequence

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import Conflict, Invalid
from nightdesk.house import House
from nightdesk.store import tasks
from nightdesk.work.insight import find_task, history, task_json
from nightdesk.work.queue import dispatch_next
from nightdesk.work.states import move, require_task


def list_dead(
    house: House, *, playbook: str | None = None, tenant: str | None = None, error: str | None = None, limit: int = 50
) -> list[dict[str, Json]]:
    """Dead letters, the newest first. `error` is a part of the error's message or its class."""
    query = _query(playbook, tenant, error).order_by(tasks.c.ended_at.desc(), tasks.c.id).limit(limit)
    with house.db.read() as conn:
        return [task_json(row) for row in conn.execute(query).mappings()]


def show_dead(house: House, task_id: str, tenant: str | None = None) -> dict[str, Json]:
    """One dead letter whole: input, last error with its traceback, steps, and everything that happened."""
    shown = find_task(house, task_id, tenant)
    if shown["state"] != "dead":
        raise Conflict(f"Task {task_id} is {shown['state']}, not a dead letter.", "See: nightdesk tasks show")
    with house.db.read() as conn:
        row = conn.execute(sa.select(tasks.c.input, tasks.c.error).where(tasks.c.id == task_id)).one()
    return shown | {"input": row.input, "error": row.error, "history": history(house, task_id)}


def replay(house: House, ids: Sequence[str], *, actor: str, why: str = "", tenant: str | None = None) -> int:
    """Queue dead letters again. Each goes on after its last completed step, with its counts of failures cleared."""
    for task_id in ids:
        with house.db.write() as conn:
            task = require_task(conn, task_id, tenant)
            if task["state"] != "dead":
                raise Conflict(f"Task {task_id} is {task['state']}.", "Only dead letters can be replayed.")
            columns = dispatch_next(house, conn, task) | {"strikes": 0, "failures": 0, "error": None, "worked_ms": 0}
            move(conn, house.clock.now(), task, "queued", cause=why or "replayed", actor=actor, **columns)
    return len(ids)


def drop(house: House, ids: Sequence[str], *, actor: str, why: str, tenant: str | None = None) -> int:
    """Take dead letters off the list for good; they stay in the paper trail as cancelled."""
    for task_id in ids:
        with house.db.write() as conn:
            task = require_task(conn, task_id, tenant)
            if task["state"] != "dead":
                raise Conflict(f"Task {task_id} is {task['state']}.", "Only dead letters can be dropped.")
            move(conn, house.clock.now(), task, "cancelled", cause=f"dropped: {why}", actor=actor)
    return len(ids)


def matching(
    house: House, *, playbook: str | None = None, tenant: str | None = None, error: str | None = None
) -> list[str]:
    """The ids that a filter means. An empty filter is refused: it would mean all of them."""
    if not (playbook or tenant or error):
        raise Invalid("The filter is empty", [], "Name a playbook, a tenant, or a part of the error.")
    query = _query(playbook, tenant, error).with_only_columns(tasks.c.id).order_by(tasks.c.ended_at, tasks.c.id)
    with house.db.read() as conn:
        return list(conn.execute(query).scalars())


def _query(playbook: str | None, tenant: str | None, error: str | None) -> sa.Select[tuple[object, ...]]:
    query = sa.select(tasks).where(tasks.c.state == "dead")
    if playbook:
        query = query.where(tasks.c.playbook == playbook)
    if tenant:
        query = query.where(tasks.c.tenant == tenant)
    if error:
        query = query.where(sa.cast(tasks.c.error, sa.Text).contains(error, autoescape=True))
    return query
