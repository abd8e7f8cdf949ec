"""Work of the night: it joins one, its legs run while that one is open, and it goes home when that one is over.

A task of the night has `until`, its hard stop, as soon as it is chosen for a night; it keeps both until it is chosen
for the next, so that a leg that is called late, by whatever it waited for, finds the door shut.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.store import nights, tasks
from nightdesk.work.queue import dispatch_next
from nightdesk.work.states import Task, move

OVER = "the night is over; it waits for the next"
NOT_STARTED = "the night was over before its turn came; it waits for the next"


def why_not_now(conn: sa.Connection, now: datetime, task: Task) -> str:
    """Why no leg of the task may run at this moment; nothing if one may."""
    if task["until"] is None:
        return ""
    if task["until"] <= now:
        return NOT_STARTED if task["state"] == "planned" else OVER
    state = conn.execute(sa.select(nights.c.state).where(nights.c.name == task["night"])).scalar()
    return "" if state == "open" else f"the night of {task['night']} is {state}; nothing of it runs now"


def send_home(conn: sa.Connection, now: datetime, task: Task, why: str, *, actor: str) -> None:
    """Nothing more of this task for now: back to the queue if it was only planned, else it waits. A leg of it that was
    dispatched already is stale from here on."""
    if task["state"] == "planned" and task["until"] <= now:
        move(conn, now, task, "queued", cause=why, actor=actor, leg=task["leg"] + 1)
    else:
        move(conn, now, task, "waiting", cause=why, actor=actor, waiting_for="time", leg=task["leg"] + 1)


def join_night(
    house: House,
    conn: sa.Connection,
    now: datetime,
    task: Task,
    night: str,
    until: datetime,
    *,
    cause: str,
    actor: str,
    dispatch: bool,
) -> None:
    """Let a queued task, or one that waits since an earlier night, take part in this one; dispatched if it is open."""
    columns: dict[str, Any] = {"night": night, "until": until}
    if dispatch:
        columns |= dispatch_next(house, conn, task)
    if task["state"] == "queued":
        move(conn, now, task, "planned", cause=cause, actor=actor, **columns)
    else:
        conn.execute(tasks.update().where(tasks.c.id == task["id"]), columns | {"updated_at": now})
