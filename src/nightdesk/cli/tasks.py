"""`nightdesk tasks`: list, show, cancel, and answer what a task asks."""

from typing import Annotated, Any

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_fields, show_json, show_table
from nightdesk.errors import Invalid

app = typer.Typer(help="See tasks, cancel them, answer them.", no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
_COLUMNS = ("id", "playbook", "tenant", "key", "state", "waiting_for", "priority", "created_at", "cost_usd")
_STEP_COLUMNS = ("step", "occurrence", "status", "attempt", "duration_ms", "error")


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only tasks in this state.")] = None,
    playbook: Annotated[str | None, typer.Option(help="Only tasks of this playbook.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only tasks of this tenant.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Tasks on a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended.")] = None,
    json: JsonOption = False,
) -> None:
    """Tasks, the newest first, a page at a time."""
    with opened(asks=True) as house:
        from nightdesk.store.tables import STATES
        from nightdesk.work.insight import list_tasks

        if state is not None and state not in STATES:
            raise Invalid("There is no such state", [("state", f"known are {', '.join(STATES)}")])
        page = list_tasks(house, state=state, playbook=playbook, tenant=tenant, limit=limit, cursor=cursor)
    if json:
        show_json({"items": page.items, "next_cursor": page.next_cursor})
        return
    show_table(_COLUMNS, page.items, 'No tasks here. Add one: nightdesk add drill \'{"name": "first"}\'')
    if page.next_cursor:
        note(f"There are more; add --cursor {page.next_cursor}")


@app.command("show")
def show(task_id: TaskId, json: JsonOption = False) -> None:
    """One task with its steps, cost and result."""
    with opened(asks=True) as house:
        from nightdesk.work.insight import find_task

        task = find_task(house, task_id)
    show_task(task, json)


@app.command("cancel")
def cancel(
    task_id: TaskId,
    why: Annotated[str, typer.Option(help="The reason, for the paper trail.")] = "",
    json: JsonOption = False,
) -> None:
    """End a task without a result."""
    with opened() as house:
        from nightdesk.work.tasks import cancel as cancel_task

        task = cancel_task(house, task_id, actor=actor(), why=why)
    show_json(task) if json else say(f"{task['id']} {task['state']}")


@app.command("answer")
def answer(
    task_id: TaskId,
    choice: Annotated[str, typer.Argument(help="One of the choices that it gives.")],
    step: Annotated[str | None, typer.Option(help="Which question, if it asks several.")] = None,
    json: JsonOption = False,
) -> None:
    """Answer the question that a task waits with."""
    with opened() as house:
        from nightdesk.work.tasks import answer as answer_task

        task = answer_task(house, task_id, choice, actor=actor(), step=step)
    show_json(task) if json else say(f"{task['id']} goes on with {choice}.")


def show_task(task: dict[str, Any], json: bool) -> None:
    if json:
        show_json(task)
        return
    show_fields({name: value for name, value in task.items() if name not in ("steps", "history", "error")})
    if task["error"]:
        show_fields({"error": task["error"].get("message", task["error"])})
        if "traceback" in task["error"]:
            say(str(task["error"]["traceback"]))
    if task["steps"]:
        show_table(_STEP_COLUMNS, task["steps"], "")
