"""What anyone can ask about tasks; the web and the command line both ask here."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.engine import workers
from nightdesk.errors import NotFound
from nightdesk.house import House
from nightdesk.store import events, runs, tasks

_TASK_FIELDS = (
    "id", "playbook", "playbook_version", "tenant", "key", "state", "waiting_for", "version", "priority",
    "created_at", "updated_at", "not_before", "expires_at", "wake_at", "ended_at", "cost_usd", "result", "error",
)  # fmt: skip
_STEP_FIELDS = (
    "step", "occurrence", "status", "attempt", "started_at", "ended_at", "duration_ms", "error_class", "error",
    "model", "tools", "cost_usd",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    items: list[dict[str, Json]]
    next_cursor: str | None


def find_task(house: House, task_id: str, tenant: str | None = None) -> dict[str, Json]:
    """The task with its steps, as the API and the command line show it."""
    with house.db.read() as conn:
        return read_task(conn, task_id, tenant)


def read_task(conn: sa.Connection, task_id: str, tenant: str | None = None) -> dict[str, Json]:
    """The same in the caller's transaction."""
    task = conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one_or_none()
    if task is None or tenant not in (None, task["tenant"]):
        raise NotFound(f"There is no task {task_id}.", "List tasks with: nightdesk tasks list")
    steps = sa.select(runs).where(runs.c.task_id == task_id, runs.c.version == task["version"])
    rows = conn.execute(steps.order_by(runs.c.position, runs.c.occurrence)).mappings().all()
    open_questions = [
        _question(row) for row in rows if row["status"] == "waiting" and "choices" in (row["input"] or {})
    ]
    return task_json(task) | {"steps": [_plain(row, _STEP_FIELDS) for row in rows], "questions": open_questions}


def list_tasks(
    house: House,
    *,
    state: str | None = None,
    playbook: str | None = None,
    tenant: str | None = None,
    waiting_for: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page:
    """The newest first, a page at a time; the cursor is where the last page ended."""
    stated = {"state": state, "playbook": playbook, "tenant": tenant, "waiting_for": waiting_for}
    query = sa.select(tasks).where(*(tasks.c[name] == value for name, value in stated.items() if value is not None))
    if cursor is not None:
        query = query.where(sa.tuple_(tasks.c.created_at, tasks.c.id) < sa.tuple_(*_after(cursor)))
    query = query.order_by(tasks.c.created_at.desc(), tasks.c.id.desc()).limit(limit + 1)
    with house.db.read() as conn:
        rows = list(conn.execute(query).mappings())
    more = len(rows) > limit
    return Page([task_json(row) for row in rows[:limit]], _cursor(rows[limit - 1]) if more else None)


def count_states(house: House, tenant: str | None = None) -> dict[str, int]:
    query = sa.select(tasks.c.state, sa.func.count()).group_by(tasks.c.state).order_by(tasks.c.state)
    if tenant is not None:
        query = query.where(tasks.c.tenant == tenant)
    with house.db.read() as conn:
        return {row[0]: row[1] for row in conn.execute(query)}


def list_workers(house: House) -> list[dict[str, Json]]:
    return [{name: _value(value) for name, value in worker.items()} for worker in workers(house.db)]


def history(house: House, task_id: str) -> list[dict[str, Json]]:
    """Everything that happened to the task, first to last."""
    kept = ("at", "kind", "version", "prior_state", "state", "cause", "actor", "detail")
    query = sa.select(events).where(events.c.task_id == task_id).order_by(events.c.id)
    with house.db.read() as conn:
        return [_plain(row, kept) for row in conn.execute(query).mappings()]


def task_json(task: Mapping[Any, Any]) -> dict[str, Json]:
    shown = _plain(task, _TASK_FIELDS)
    shown["priority"] = f"P{task['priority']}"
    if shown["error"]:  # the traceback is for those who ask for the dead letter
        shown["error"] = {name: value for name, value in shown["error"].items() if name != "traceback"}
    return shown


def _question(row: Mapping[Any, Any]) -> dict[str, Json]:
    """What a person is asked by `desk.ask`, and until when."""
    asked = row["input"]
    return {"step": row["step"]} | {name: asked[name] for name in ("question", "choices", "until", "default")}


def _plain(row: Mapping[Any, Any], fields: tuple[str, ...]) -> dict[str, Json]:
    return {name: _value(row[name]) for name in fields}


def _value(value: Any) -> Json:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case Decimal():
            return format(value, "f")
    return value


def _cursor(row: Mapping[Any, Any]) -> str:
    place = json.dumps([_value(row["created_at"]), row["id"]])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _after(cursor: str) -> tuple[Any, Any]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        created_at, task_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None or not isinstance(task_id, str) or "\0" in task_id:
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        raise NotFound("There is no page at this cursor.", "Take the cursor from next_cursor.") from None
    return sa.literal(moment, tasks.c.created_at.type), sa.literal(task_id)
