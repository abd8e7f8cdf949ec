"""Housekeeping of tasks: what time, switches, limits and lost wake-ups leave to be done."""

from datetime import timedelta

import sqlalchemy as sa

from nightdesk.engine.takeover import broken_legs, forget_legs
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.store import requests, tasks
from nightdesk.work.begin import too_old
from nightdesk.work.end import fill_turns
from nightdesk.work.queue import dispatch_next, wake
from nightdesk.work.states import lock_task, move

_MOST_AT_ONCE = 500
_KEEP_LEGS = timedelta(hours=24)


def expire(house: House) -> int:
    """End what is too old to be worth doing, and say so."""
    now = house.clock.now()
    states = ("queued", "planned", "waiting")
    due = sa.select(tasks).where(tasks.c.expires_at <= now, tasks.c.ended_at.is_(None), tasks.c.state.in_(states))
    with house.db.write() as conn:
        old = conn.execute(due.limit(_MOST_AT_ONCE).with_for_update(skip_locked=True)).mappings().all()
        for task in old:
            move(conn, now, task, "expired", cause=too_old(task), actor="sweeper")
    return len(old)


def wake_switched_on(house: House, switchboard: Switchboard) -> int:
    """Wake what waited for a switch that no longer covers it."""
    waiting = sa.select(tasks).where(tasks.c.waiting_for == "switch", tasks.c.rank.is_(None))
    waiting = waiting.order_by(tasks.c.priority, tasks.c.created_at).limit(_MOST_AT_ONCE)
    with house.db.write() as conn:
        found = conn.execute(waiting.with_for_update(skip_locked=True)).mappings().all()
        free = [task for task in found if switchboard.covering(task["playbook"], task["tenant"]) is None]
        for task in free:
            wake(house, conn, task)
    return len(free)


def wake_turns_left(house: House) -> int:
    """Fill places that are free although tasks wait for a turn: a wake-up was lost with its worker."""
    flows = sa.select(tasks.c.playbook, tasks.c.tenant).where(tasks.c.waiting_for == "turn", tasks.c.rank.is_(None))
    with house.db.write() as conn:
        return sum(fill_turns(house, conn, *flow) for flow in conn.execute(flows.distinct()).all())


def requeue_broken(house: House) -> int:
    """Queue tasks anew whose leg the queue gave up on; starts are counted, so this ends too."""
    broken = broken_legs(house.dispatcher.client)
    with house.db.write() as conn:
        found = conn.execute(
            sa.select(tasks.c.id, tasks.c.leg).where(tasks.c.id.in_([task_id for task_id, _ in broken]))
        )
        stranded = [row.id for row in found if (row.id, row.leg) in broken]
        return sum(_requeue(house, conn, task_id) for task_id in stranded)


def _requeue(house: House, conn: sa.Connection, task_id: str) -> bool:
    task = lock_task(conn, task_id)
    if task is None or task["state"] not in ("queued", "planned", "waiting", "working"):
        return False
    columns = dispatch_next(house, conn, task)
    if task["state"] == "working":
        move(conn, house.clock.now(), task, "queued", cause="its leg broke off", actor="sweeper", **columns)
    else:
        conn.execute(tasks.update().where(tasks.c.id == task_id), columns)
    return True


def forget(house: House) -> None:
    """Delete what has served: answers that can no longer be replayed, queue rows of legs long ended."""
    now = house.clock.now()
    key = sa.tuple_(requests.c.tenant, requests.c.key)
    old = sa.select(requests.c.tenant, requests.c.key).where(requests.c.expires_at <= now).limit(_MOST_AT_ONCE)
    with house.db.write() as conn:
        conn.execute(requests.delete().where(key.in_(old)))
    forget_legs(house.dispatcher.client, (now - _KEEP_LEGS).isoformat(), _MOST_AT_ONCE)
