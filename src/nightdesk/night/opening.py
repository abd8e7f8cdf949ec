"""The start of a night: its work is dispatched in the order of the plan, as fast as it is begun."""

from datetime import datetime

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.house import House
from nightdesk.night.moving import any_of, is_moving
from nightdesk.night.schedule import Night, playbooks_of
from nightdesk.night.steps import take_step
from nightdesk.store import nights, plan_items, tasks
from nightdesk.work.queue import dispatch_in_order
from nightdesk.work.states import Task

# So many of a night stand in the line at most: enough for many workers, and few to take out of it at the hard stop.
_LINE = 1000
_CHUNK = 250


def open_night(house: House, night: Night) -> bool:
    now = house.clock.now()
    with house.db.write() as conn:
        opened = take_step(house, conn, now, night, "open", cause="its window has begun", opened_at=now)
    failpoint("night-opened")
    return opened


def dispatch_due(house: House, night: Night) -> int:
    """Dispatch what is next in the plan while there is room in the line; the answer is how many tasks that were."""
    total = 0
    while count := _dispatch_some(house, night):
        total += count
        failpoint("night-dispatched")
    return total


def _dispatch_some(house: House, night: Night) -> int:
    now = house.clock.now()
    with house.db.write() as conn:
        if not house.db.try_lock(conn, f"nightdesk-dispatch-{night['name']}"):
            return 0
        room = min(_CHUNK, _LINE - _in_line(conn, night))
        chosen = conn.execute(_next_in_plan(night, now, held_back(house, conn, night), room)).mappings().all()
        if not chosen:
            return 0
        ready = [task for task in chosen if _is_ready(task, night, now)]
        dispatch_in_order(house, conn, ready, tasks.c.night == night["name"])
        items = (plan_items.c.night == night["name"]) & plan_items.c.task_id.in_([task["id"] for task in chosen])
        conn.execute(plan_items.update().where(items), {"dispatched_at": now})
        conn.execute(nights.update().where(nights.c.name == night["name"]), {"moved_at": now})
        return len(chosen)


def _in_line(conn: sa.Connection, night: Night) -> int:
    query = sa.select(sa.func.count()).where(tasks.c.rank.is_not(None), tasks.c.night == night["name"])
    return int(conn.execute(query).scalar_one())


def _next_in_plan(night: Night, now: datetime, without: list[str], most: int) -> sa.Select[tuple[object, ...]]:
    item = plan_items.c
    return (
        sa.select(tasks)
        .join(plan_items, item.task_id == tasks.c.id)
        .where(item.night == night["name"], item.chosen, item.dispatched_at.is_(None))
        .where(item.starts_at <= now, tasks.c.playbook.not_in(without))
        .order_by(item.position)
        .limit(max(0, most))
        .with_for_update(of=tasks)
    )


def held_back(house: House, conn: sa.Connection, night: Night) -> list[str]:
    """Playbooks that come after another, which is still at work in this night."""
    return [
        name
        for name in playbooks_of(house, night)
        if (first := house.registry.get(name).when.after)
        and any_of(conn, is_moving(night) & (tasks.c.playbook == first))
    ]


def _is_ready(task: Task, night: Night, now: datetime) -> bool:
    """It was not cancelled, expired or taken elsewhere since the plan was made, nor waits for something to come."""
    if task["night"] != night["name"] or task["until"] <= now or task["rank"] is not None:
        return False
    waits = task["state"] == "waiting" and task["waiting_for"] == "time" and task["wake_at"] is None
    return waits or task["state"] == "planned"
