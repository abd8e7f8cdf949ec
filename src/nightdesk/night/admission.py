"""Urgent work that is handed in after the cut-off: P0 and P1 still join the night that runs, or that is next."""

from datetime import datetime

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.night.opening import held_back
from nightdesk.night.planning import barred
from nightdesk.night.schedule import Night, belongs
from nightdesk.store import plan_items, tasks
from nightdesk.work.nightly import join_night
from nightdesk.work.states import Task

# As the index has it, to the letter.
_IS_URGENT = sa.text("tasks.priority <= 1 AND tasks.rank IS NULL AND tasks.ended_at IS NULL")
_MOST_AT_ONCE = 500
_t = tasks.c


def admit_late(house: House, night: Night) -> int:
    """Let urgent tasks that the plan knows nothing of join the night; the answer is how many did."""
    now = house.clock.now()
    with house.db.read() as conn:
        if conn.execute(_late(house, night, now).limit(1)).first() is None:
            return 0
        left_out = barred(house, conn).keys() - (night["plan"].get("anyway") or {}).keys()
    with house.db.write() as conn:
        chosen = _late(house, night, now).where(_t.playbook.not_in(left_out)).with_for_update(skip_locked=True)
        found = conn.execute(chosen).mappings().all()
        held = held_back(house, conn, night) if found else []
        for task in found:
            _admit(house, conn, now, night, task, at_once=night["state"] == "open" and task["playbook"] not in held)
        return len(found)


def _late(house: House, night: Night, now: datetime) -> sa.Select[tuple[object, ...]]:
    """Those that were left out of the plan, or dropped from it, have a row there with the reason."""
    known = sa.exists(sa.select(1).where(plan_items.c.night == night["name"], plan_items.c.task_id == _t.id))
    fresh = (_t.state == "queued") & (_t.until.is_(None) | (_t.until <= now))
    begun = (_t.state == "waiting") & (_t.waiting_for == "time") & _t.wake_at.is_(None) & (_t.until <= now)
    return (
        sa.select(tasks)
        .where(_IS_URGENT, belongs(house, night), fresh | begun, ~known)
        .where(_t.not_before.is_(None) | (_t.not_before <= now))
        .order_by(_t.priority, _t.created_at)
        .limit(_MOST_AT_ONCE)
    )


def _admit(house: House, conn: sa.Connection, now: datetime, night: Night, task: Task, *, at_once: bool) -> None:
    """It goes before everything that was planned."""
    why = f"P{task['priority']}: it was handed in after the cut-off"
    join_night(house, conn, now, task, night["name"], night["stops_at"], cause=why, actor="night", dispatch=at_once)
    first = sa.select(sa.func.coalesce(sa.func.min(plan_items.c.position), 0) - 1).where(
        plan_items.c.night == night["name"]
    )
    item = {
        "night": night["name"],
        "task_id": task["id"],
        "position": conn.execute(first).scalar_one(),
        "worst_micros": 0,
        "likely_micros": 0,
        "review_minutes": 0,
        "chosen": True,
        "why": why,
        "starts_at": night["starts_at"],
        "stops_at": night["stops_at"],
        "changed_by": "night",
        "dispatched_at": now if at_once else None,
    }
    conn.execute(plan_items.insert(), item)
