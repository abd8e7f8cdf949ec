"""What people do to a task from outside: cancel it, answer its question."""

from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import Conflict, Invalid
from nightdesk.house import House
from nightdesk.store import runs
from nightdesk.watch.events import record
from nightdesk.work.insight import find_task
from nightdesk.work.queue import wake
from nightdesk.work.states import ENDS, Task, move, require_task


def cancel(house: House, task_id: str, *, actor: str, why: str = "", tenant: str | None = None) -> dict[str, Json]:
    """End the task without a result. A step that is running finds its write refused; none is started after it."""
    with house.db.write() as conn:
        task = require_task(conn, task_id, tenant)
        if task["state"] in ENDS and task["state"] != "cancelled":
            raise Conflict(f"Task {task_id} is {task['state']} already.", "Nothing is left to cancel.")
        if task["state"] != "cancelled":
            move(conn, house.clock.now(), task, "cancelled", cause=why or "cancelled", actor=actor)
    return find_task(house, task_id, tenant)


def answer(
    house: House, task_id: str, choice: str, *, actor: str, step: str | None = None, tenant: str | None = None
) -> dict[str, Json]:
    """Answer a question of `desk.ask`; the task goes on with the choice. The same answer again does nothing."""
    with house.db.write() as conn:
        task = require_task(conn, task_id, tenant)
        answer_in(house, conn, task, _open_question(conn, task, step), choice, actor=actor)
    return find_task(house, task_id, tenant)


def answer_in(house: House, conn: sa.Connection, task: Task, question: Any, choice: str, *, actor: str) -> None:
    """The same in the caller's transaction, for a task that it holds and a row of `runs` that waits."""
    choices = question["input"]["choices"]
    if choice not in choices:
        raise Invalid("That is not one of the choices", [("choice", f"known are {', '.join(choices)}")])
    now = house.clock.now()
    took = round((now - question["started_at"]).total_seconds() * 1000)
    values = {"status": "done", "output": choice, "ended_at": now, "duration_ms": max(0, took)}
    conn.execute(runs.update().where(_is_row(question)), values)
    told = {"step": question["step"], "occurrence": question["occurrence"], "choice": choice}
    record(
        conn, now, "answer", cause=f"answered: {choice}", actor=actor, task_id=task["id"], version=task["version"],
        detail=told,
    )  # fmt: skip
    if task["state"] == "waiting":
        wake(house, conn, task)


def _open_question(conn: sa.Connection, task: Task, step: str | None) -> Any:
    waiting = sa.select(runs).where(
        runs.c.task_id == task["id"], runs.c.version == task["version"], runs.c.status == "waiting"
    )
    questions = [
        row
        for row in conn.execute(waiting.order_by(runs.c.position)).mappings()
        if (row["input"] or {}).get("choices") and step in (None, row["step"])
    ]
    if not questions or task["state"] in ENDS:
        raise Conflict(f"Task {task['id']} has no open question.", "Look at it: nightdesk tasks show")
    if len(questions) > 1:
        names = ", ".join(row["step"] for row in questions)
        raise Invalid("The task has several open questions", [("step", f"name one of {names}")])
    return questions[0]


def _is_row(row: Any) -> sa.ColumnElement[bool]:
    return sa.and_(
        runs.c.task_id == row["task_id"],
        runs.c.version == row["version"],
        runs.c.step == row["step"],
        runs.c.occurrence == row["occurrence"],
    )
