"""Putting a task's next leg on the queue: when, and behind whom.

Fairness is an order, not a machine. Within a priority each flow (tenant and playbook) counts its own tasks:
a new one ranks one behind the flow's last, or one behind the front of the queue if the flow has none
waiting. So ten thousand tasks of one flow and one of another interleave, at the cost of two index probes.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.store import tasks
from nightdesk.work.states import Task, lock_task

_FLOW: dict[str, sa.BindParameter[Any]] = {name: sa.bindparam(name) for name in ("tenant", "playbook", "priority")}
_FRONT = sa.select(sa.func.min(tasks.c.rank)).where(tasks.c.rank.is_not(None), tasks.c.priority == _FLOW["priority"])
_OWN = sa.select(sa.func.max(tasks.c.rank)).where(
    tasks.c.rank.is_not(None), *(tasks.c[name] == value for name, value in _FLOW.items())
)
_RANKS = sa.select(_FRONT.scalar_subquery(), _OWN.scalar_subquery())


def fair_rank(conn: sa.Connection, task: Task) -> int:
    """One behind the last task of the same flow that is queued, or behind the front of the queue."""
    front, own = conn.execute(_RANKS, {name: task[name] for name in _FLOW}).one()
    return max(front or 0, own or 0) + 1


def dispatch_next(house: House, conn: sa.Connection, task: Task, delay_seconds: float = 0) -> dict[str, Any]:
    """Queue the leg after the task's present one; the answer is the columns to store with it.

    A delayed leg holds no rank: it is not in the line yet, and must not count as its front.
    """
    leg = task["leg"] + 1
    rank = fair_rank(conn, task)
    house.dispatcher.enqueue(conn, task["id"], leg, priority=task["priority"], rank=rank, delay_seconds=delay_seconds)
    return {"leg": leg, "rank": None if delay_seconds > 0 else rank}


def dispatch_in_order(
    house: House, conn: sa.Connection, chosen: Sequence[Task], before: sa.ColumnElement[bool]
) -> None:
    """Queue the next legs of these tasks in this order: in each priority behind those of `before` that are in the line,
    or behind its front."""
    last: dict[int, int] = {}
    rows = []
    for task in chosen:
        priority = task["priority"]
        if priority not in last:
            last[priority] = _last_rank(conn, priority, before)
        last[priority] += 1
        house.dispatcher.enqueue(conn, task["id"], task["leg"] + 1, priority=priority, rank=last[priority])
        rows.append({"p_id": task["id"], "leg": task["leg"] + 1, "rank": last[priority]})
    if rows:
        conn.execute(tasks.update().where(tasks.c.id == sa.bindparam("p_id")), rows)


def _last_rank(conn: sa.Connection, priority: int, before: sa.ColumnElement[bool]) -> int:
    in_line = tasks.c.rank.is_not(None) & (tasks.c.priority == priority)
    own = sa.select(sa.func.max(tasks.c.rank)).where(in_line, before)
    front = sa.select(sa.func.min(tasks.c.rank)).where(in_line)
    found = conn.execute(sa.select(own.scalar_subquery(), front.scalar_subquery())).one()
    return max(rank or 0 for rank in found)


def wake(house: House, conn: sa.Connection, task: Task) -> None:
    """What a waiting task waited for has come: queue its next leg. It is `waiting` until that leg starts."""
    columns = dispatch_next(house, conn, task) | {"wake_at": None, "updated_at": house.clock.now()}
    conn.execute(tasks.update().where(tasks.c.id == task["id"]), columns)


def wake_those_waiting(house: House, conn: sa.Connection, task_ids: Sequence[str]) -> None:
    """The same for those of these tasks that wait and are not in the line yet, the most urgent first."""
    # Without the state in the query: a leg that parks at this moment holds the row, and is waited for.
    held = sa.select(tasks).where(tasks.c.id.in_(task_ids)).order_by(tasks.c.id).with_for_update()
    found = conn.execute(held).mappings().all() if task_ids else []
    for task in sorted(found, key=lambda task: (task["priority"], task["created_at"])):
        if task["state"] == "waiting" and task["rank"] is None:
            wake(house, conn, task)


def return_leg(house: House, conn: sa.Connection, task_id: str, leg: int) -> None:
    """Queue a leg anew that was called, but not begun, by a worker that is about to leave."""
    task = lock_task(conn, task_id)
    if task is not None and task["leg"] == leg and task["ended_at"] is None:
        columns = dispatch_next(house, conn, task)
        conn.execute(tasks.update().where(tasks.c.id == task_id), columns)
