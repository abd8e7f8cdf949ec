"""The start of a leg: may it run now, here, and what has the task done so far."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from nightdesk.engine import Slot
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.store import calls, runs, tasks
from nightdesk.work.nightly import send_home, why_not_now
from nightdesk.work.sent_back import SentBack, sent_back
from nightdesk.work.states import Task, lock_task, move

# A task that took its worker down twice runs alone among such tasks, so that it cannot take others with it.
_SUSPECT_STRIKES = 2


@dataclass(frozen=True, slots=True)
class Begun:
    """A leg that this worker now holds."""

    task: Task
    dispatch: int
    rows: list[Any]
    at: datetime
    sent_back: SentBack | None = None


def begin_leg(
    house: House, conn: sa.Connection, task_id: str, leg: int, *, slot: Slot, switchboard: Switchboard, alone: bool
) -> Begun | Literal["alone"] | None:
    """Take the task to `working`, or to wherever it belongs instead. `alone` asks to be called again by itself."""
    task = lock_task(conn, task_id)
    if task is None or task["leg"] != leg or task["state"] not in ("queued", "planned", "waiting", "working"):
        return None
    now = house.clock.now()
    if task["expires_at"] is not None and task["expires_at"] <= now and task["state"] != "working":
        move(conn, now, task, "expired", cause=too_old(task), actor="worker")
        return None
    if task["strikes"] >= house.settings.worker.dispatches:
        _bury_poison(conn, now, task)
        return None
    if task["strikes"] >= _SUSPECT_STRIKES and not alone:
        return "alone"
    if why := why_not_now(conn, now, task):
        send_home(conn, now, task, why, actor="worker")
        return None
    if _must_wait(house, conn, now, task, switchboard):
        return None
    return _start(house, conn, now, task, slot)


def too_old(task: Task) -> str:
    return f"too old to be worth doing: it was to be started by {task['expires_at'].isoformat(timespec='seconds')}"


def _start(house: House, conn: sa.Connection, now: datetime, task: Task, slot: Slot) -> Begun:
    dispatch = task["dispatch"] + 1
    cause = "taken over" if task["state"] == "working" else "started" if task["dispatch"] == 0 else "resumed"
    saved = sa.select(runs).where(runs.c.task_id == task["id"], runs.c.version == task["version"])
    rows = list(conn.execute(saved).mappings()) if task["dispatch"] else []
    move(
        conn,
        now,
        task,
        "working",
        cause=cause,
        actor=slot.name,
        dispatch=dispatch,
        strikes=task["strikes"] + 1,
        slot=slot.executor_id,
        playbook_version=_version(house, conn, task, rows),
    )
    return Begun(task, dispatch, rows, now, sent_back(conn, task))


def _bury_poison(conn: sa.Connection, now: datetime, task: Task) -> None:
    sentence = f"It was started {task['strikes']} times and took its worker down each time before any step was done."
    error = {"class": "poison", "type": "Poison", "message": sentence, "step": None, "traceback": ""}
    move(conn, now, task, "dead", cause=sentence, actor="worker", error=error)


def _must_wait(house: House, conn: sa.Connection, now: datetime, task: Task, switchboard: Switchboard) -> bool:
    """Park the task if a switch or a limit of concurrency forbids this leg; say so."""
    switch = switchboard.covering(task["playbook"], task["tenant"])
    if switch is not None:
        move(conn, now, task, "waiting", cause=f"switched off: {switch.why}", actor="worker", waiting_for="switch")
        return True
    full = _full_limit(house, conn, task)
    if full is not None:
        move(conn, now, task, "waiting", cause=full, actor="worker", waiting_for="turn")
    return full is not None


def _full_limit(house: House, conn: sa.Connection, task: Task) -> str | None:
    for column, name, limit in limits_of(house, task["playbook"], task["tenant"]):
        house.db.lock(conn, f"nightdesk-limit-{column.name}-{name}")
        if working(conn, column, name) - (task["state"] == "working") >= limit:
            return f"{column.name} {name} may run {limit} at once, and does"
    return None


def limits_of(house: House, playbook: str, tenant: str) -> list[tuple[sa.Column[str], str, int]]:
    """The limits of concurrency that a task of this playbook and tenant is under."""
    limits = house.settings.limits
    of_playbook = limits.playbooks.get(playbook, _own_limit(house, playbook))
    of_tenant = limits.tenants.get(tenant, limits.tenant)
    found = [(tasks.c.playbook, playbook, of_playbook), (tasks.c.tenant, tenant, of_tenant)]
    return [limit for limit in found if limit[2] > 0]


def working(conn: sa.Connection, column: sa.Column[str], name: str) -> int:
    query = sa.select(sa.func.count()).select_from(tasks).where(tasks.c.slot.is_not(None), column == name)
    return int(conn.execute(query).scalar_one())


def _version(house: House, conn: sa.Connection, task: Task, rows: list[Any]) -> str:
    """The version of the playbook that this version of the task started with stays on record."""
    if task["playbook"] in house.registry and _is_new(conn, task, rows):
        return house.registry.get(task["playbook"]).version
    return str(task["playbook_version"])


def _is_new(conn: sa.Connection, task: Task, rows: list[Any]) -> bool:
    """Whether nothing was done yet in this version of the task."""
    if task["dispatch"] == 0:
        return True
    if rows or task["version"] == 1:
        return False
    asked = sa.select(calls.c.id).where(calls.c.task_id == task["id"], calls.c.version == task["version"])
    return conn.execute(asked.limit(1)).first() is None


def _own_limit(house: House, playbook: str) -> int:
    """A playbook that was removed has no limit; the leg itself will say that it is gone."""
    return house.registry.get(playbook).limits.concurrency if playbook in house.registry else 0
