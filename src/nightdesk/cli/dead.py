"""`nightdesk dead`: what could not be done, and trying it again or letting it go."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.tasks import show_task
from nightdesk.cli.terminal import JsonOption, actor, confirmed, note, progress, say, show_json, show_table

if TYPE_CHECKING:
    from nightdesk.house import House

app = typer.Typer(help="Dead letters: look at them, replay them, drop them.", no_args_is_help=True)

Playbook = Annotated[str | None, typer.Option(help="Those of this playbook.")]
Tenant = Annotated[str | None, typer.Option(help="Those of this tenant.")]
Error = Annotated[str | None, typer.Option(help="Those whose error contains this text.")]
OneId = Annotated[str | None, typer.Argument(metavar="[ID]", help="One dead letter; or name them by a filter.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_COLUMNS = ("id", "playbook", "tenant", "key", "ended_at", "error")


@app.command("list")
def list_(
    playbook: Playbook = None,
    tenant: Tenant = None,
    error: Error = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    json: JsonOption = False,
) -> None:
    """Dead letters, the newest first."""
    with opened(asks=True) as house:
        from nightdesk.work.dead import list_dead

        found = list_dead(house, playbook=playbook, tenant=tenant, error=error, limit=limit)
    if json:
        show_json({"items": found})
        return
    show_table(_COLUMNS, [{**task, "error": _message(task)} for task in found], "No dead letters.")


@app.command("show")
def show(task_id: Annotated[str, typer.Argument(metavar="ID")], json: JsonOption = False) -> None:
    """One dead letter with its input, last error, traceback and history."""
    with opened(asks=True) as house:
        from nightdesk.work.dead import show_dead

        task = show_dead(house, task_id)
    show_task(task, json)
    if not json:
        show_table(("at", "kind", "prior_state", "state", "cause", "actor"), task["history"], "")


@app.command("replay")
def replay(
    task_id: OneId = None,
    playbook: Playbook = None,
    tenant: Tenant = None,
    error: Error = None,
    why: Annotated[str, typer.Option(help="The reason, for the paper trail.")] = "",
    yes: Yes = False,
    json: JsonOption = False,
) -> None:
    """Try again, from after the last completed step."""
    with opened() as house:
        from nightdesk.work.dead import replay as replay_dead

        ids = _chosen(house, task_id, playbook, tenant, error, "Replay", yes)
        with progress("replay", len(ids)) as advance:
            for done, one in enumerate(ids, 1):
                replay_dead(house, [one], actor=actor(), why=why)
                advance(done)
    _tell("replayed", ids, json)


@app.command("drop")
def drop(
    why: Annotated[str, typer.Option(help="The reason, for the paper trail.")],
    task_id: OneId = None,
    playbook: Playbook = None,
    tenant: Tenant = None,
    error: Error = None,
    yes: Yes = False,
    json: JsonOption = False,
) -> None:
    """Let go of them for good; they stay in the paper trail as cancelled."""
    with opened() as house:
        from nightdesk.work.dead import drop as drop_dead

        ids = _chosen(house, task_id, playbook, tenant, error, "Drop", yes)
        with progress("drop", len(ids)) as advance:
            for done, one in enumerate(ids, 1):
                drop_dead(house, [one], actor=actor(), why=why)
                advance(done)
    _tell("dropped", ids, json)


def _chosen(
    house: "House",
    task_id: str | None,
    playbook: str | None,
    tenant: str | None,
    error: str | None,
    verb: str,
    yes: bool,
) -> list[str]:
    from nightdesk.work.dead import matching

    if task_id is None:
        ids = matching(house, playbook=playbook, tenant=tenant, error=error)
        if ids and not confirmed(f"{verb} {len(ids)} dead letters?", yes):
            raise typer.Abort
        return ids
    if playbook or tenant or error:
        raise typer.BadParameter("Name one dead letter or a filter, not both.", param_hint="ID")
    return [task_id]


def _tell(done: str, ids: list[str], json: bool) -> None:
    if json:
        show_json({done: len(ids), "ids": ids})
    elif ids:
        say(f"{done.capitalize()}: {len(ids)}.")
    else:
        note("No dead letter is like that; nothing was done.")


def _message(task: dict[str, Any]) -> str:
    return str(task["error"].get("message", task["error"])).partition("\n")[0]
