"""Changing a plan until its window opens: a task that was left out is kept, one that was chosen is dropped.

What is kept must fit under every cap beside all that is planned; whoever wants it has to drop something else, or allow
more money, before it does.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.errors import Conflict, Invalid
from nightdesk.house import House
from nightdesk.night.candidates import Offer, Reader, columns_of, is_candidate
from nightdesk.night.plan import why_too_much
from nightdesk.night.schedule import Night
from nightdesk.night.steps import LOCK
from nightdesk.night.sums import sums_of
from nightdesk.store import nights, plan_items, tasks
from nightdesk.watch.events import record
from nightdesk.work.nightly import join_night
from nightdesk.work.states import Task, move, require_task

_SEE = "See what is planned: nightdesk plan"
_MAKE_ROOM = "Drop another task first: nightdesk plan drop TASK"
_ANYWAY = "A launch test that is not passed can be overruled: --anyway WHY"


def keep(house: House, task_id: str, *, actor: str, anyway: str = "") -> str:
    """Choose a task that was left out; the answer is its night. `anyway`: why, though its launch test is not passed."""
    with house.db.write() as conn:
        now, night, task, item = _changeable(house, conn, task_id)
        if item["chosen"]:
            return str(night["name"])
        if anyway:
            night = _let_pass(conn, now, night, task["playbook"], anyway, actor)
        offer = _offer(house, conn, now, night, task)
        cause = f"kept in the plan of the night of {night['name']}"
        join_night(house, conn, now, task, night["name"], night["stops_at"], cause=cause, actor=actor, dispatch=False)
        values = {"chosen": True, "why": f"kept by {actor}", **columns_of(offer)}
        _change(conn, now, night, task_id, values, actor=actor, state="kept")
    return str(night["name"])


def drop(house: House, task_id: str, *, actor: str) -> str:
    """Leave out a task that was chosen; the answer is its night. The room that it leaves is for whom somebody keeps."""
    with house.db.write() as conn:
        now, night, task, item = _changeable(house, conn, task_id)
        if not item["chosen"]:
            return str(night["name"])
        cause = f"dropped from the plan of the night of {night['name']}"
        if task["state"] == "planned":
            move(conn, now, task, "queued", cause=cause, actor=actor, night=None, until=None)
        else:  # it waits since an earlier night, and does so for another
            conn.execute(tasks.update().where(tasks.c.id == task_id), {"night": None, "until": now, "updated_at": now})
        values = {"chosen": False, "why": f"dropped by {actor}"}
        _change(conn, now, night, task_id, values, actor=actor, state="dropped")
    return str(night["name"])


def _changeable(house: House, conn: sa.Connection, task_id: str) -> tuple[datetime, Night, Task, Mapping[Any, Any]]:
    """The task, held, with its line in the plan of a night that is yet to open."""
    now = house.clock.now()
    house.db.lock(conn, LOCK)
    task = require_task(conn, task_id)
    yet_to_open = (nights.c.state == "planned") & (nights.c.starts_at > now)
    query = sa.select(nights).join(plan_items, plan_items.c.night == nights.c.name)
    query = query.where(plan_items.c.task_id == task_id, yet_to_open).order_by(nights.c.starts_at)
    night = conn.execute(query.limit(1)).mappings().one_or_none()
    if night is None:
        raise Conflict(
            f"Task {task_id} is in no plan that can be changed: its window is open, or is not planned.", _SEE
        )
    item = sa.select(plan_items).where(plan_items.c.night == night["name"], plan_items.c.task_id == task_id)
    return now, night, task, conn.execute(item).mappings().one()


def _let_pass(conn: sa.Connection, now: datetime, night: Night, playbook: str, why: str, actor: str) -> Night:
    if not why.strip():
        raise Invalid("The reason is empty", [("anyway", "is empty")], "Say why; it is kept in the audit trail.")
    detail = {"night": night["name"], "playbook": playbook}
    record(conn, now, "plan", cause=why, actor=actor, state="anyway", detail=detail)
    plan = night["plan"] | {"anyway": night["plan"]["anyway"] | {playbook: why}}
    return dict(night) | {"plan": plan}


def _offer(house: House, conn: sa.Connection, now: datetime, night: Night, task: Task) -> Offer:
    """What the task takes, if it can be done and fits; Conflict if not, with the reason."""
    window = Window(
        night["name"], cutoff=now, start=night["starts_at"], stop=night["stops_at"], summary=night["summary_at"]
    )
    reader = Reader(house, conn, window, night["plan"]["anyway"])
    reader.promise_planned(now)
    found = reader.read((tasks.c.id == task["id"]) & is_candidate(now, window))
    if not found:
        raise Conflict(f"Task {task['id']} is {task['state']}; it cannot be planned.", _SEE)
    offer, caps = found[0], reader.capacity.caps()
    if offer.refusal:
        raise Conflict(f"Task {task['id']} cannot be kept: {offer.refusal}.", _ANYWAY)
    if why := why_too_much(offer.needs, [cap.left for cap in caps], caps):
        raise Conflict(f"Task {task['id']} cannot be kept: {why}.", _MAKE_ROOM)
    return offer


def _change(
    conn: sa.Connection, now: datetime, night: Night, task_id: str, values: dict[str, Any], *, actor: str, state: str
) -> None:
    item = (plan_items.c.night == night["name"]) & (plan_items.c.task_id == task_id)
    conn.execute(plan_items.update().where(item), values | {"changed_by": actor})
    plan = night["plan"] | sums_of(conn, night["name"])
    conn.execute(nights.update().where(nights.c.name == night["name"]), {"plan": plan})
    detail = {"night": night["name"]}
    record(conn, now, "plan", cause=values["why"], actor=actor, task_id=task_id, state=state, detail=detail)
