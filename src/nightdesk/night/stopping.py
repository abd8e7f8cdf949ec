"""The hard stop: whatever of a night is under way, in the line for it, or was never begun, goes home with the reason.

Legs that run are parked by their own workers, and legs that are called late are refused; here is what is left: tasks
that stand in the line, and those whose worker is dead, frozen or deaf.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.house import House
from nightdesk.night.moving import any_of
from nightdesk.night.schedule import Night
from nightdesk.night.steps import take_step
from nightdesk.store import tasks
from nightdesk.work.nightly import NOT_STARTED, OVER, send_home
from nightdesk.work.states import move_all

_MOST_AT_ONCE = 500
# A worker has this long to park its legs; then they are taken from it, and its writes are refused.
_GRACE = timedelta(seconds=20)
_NOT_LET_GO = "the night is over, and its worker did not let go of it; it waits for the next"
_t = tasks.c


def begin_closing(house: House, night: Night, cause: str) -> bool:
    """From here on nothing of it begins. One that ends early is over for its tasks, too."""
    now = house.clock.now()
    with house.db.write() as conn:
        taken = take_step(house, conn, now, night, "closing", cause=cause)
        if taken and now < night["stops_at"]:
            early = (_t.night == night["name"]) & _t.ended_at.is_(None) & (_t.until > now)
            conn.execute(tasks.update().where(early), {"until": now})
    failpoint("night-stopped")
    return taken


def stop_all(house: House, night: Night) -> bool:
    """Send home what is left; true once nothing of the night is under way any more."""
    while _send_some_home(house, night):
        failpoint("night-sent-home")
    with house.db.read() as conn:
        return not any_of(conn, (_t.night == night["name"]) & (_stands_in_line() | (_t.state == "working")))


def _send_some_home(house: House, night: Night) -> int:
    now = house.clock.now()
    with house.db.write() as conn:
        found = conn.execute(_stranded(night, now)).mappings().all()
        planned = [task["id"] for task in found if task["state"] == "planned"]
        move_all(conn, now, planned, "planned", "queued", cause=NOT_STARTED, actor="night", leg=_t.leg + 1)
        for task in found:
            if task["state"] != "planned":
                why = _NOT_LET_GO if task["state"] == "working" else OVER
                send_home(conn, now, task, why, actor="night")
    return len(found)


def _stranded(night: Night, now: datetime) -> sa.Select[tuple[object, ...]]:
    deaf = (_t.state == "working") & (_t.until <= now - _GRACE)
    return (
        sa.select(tasks)
        .where(_t.night == night["name"], _t.until <= now, _stands_in_line() | deaf)
        .order_by(_t.id)
        .limit(_MOST_AT_ONCE)
        .with_for_update(skip_locked=True)
    )


def _stands_in_line() -> sa.ColumnElement[bool]:
    return (_t.state == "planned") | (_t.rank.is_not(None) & _t.state.in_(("queued", "waiting")))
