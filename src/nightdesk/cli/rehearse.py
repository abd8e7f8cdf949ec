"""`nightdesk rehearse`: what a night would be like, with simulated providers, in fast time."""

import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, note, progress, say, show_fields, show_json, show_table

if TYPE_CHECKING:
    from nightdesk.rehearsal import Outcome


def rehearse(
    night: Annotated[str, typer.Argument(metavar="[NIGHT]", help="Its evening's date, or tonight.")] = "tonight",
    fault: Annotated[
        list[str] | None, typer.Option(help="What goes wrong: KIND, KIND:PROVIDER or KIND:PROVIDER*TIMES.")
    ] = None,
    playbook: Annotated[str | None, typer.Option(help="Only tasks of this playbook.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many tasks, the most urgent.")] = 1000,
    batch_minutes: Annotated[float, typer.Option(min=0, help="How long a batch takes.")] = 45,
    json: JsonOption = False,
) -> None:
    """Try out a night with the tasks that are open now; the house is only read."""
    with opened(asks=True) as house, tempfile.TemporaryDirectory(prefix="nightdesk-rehearsal-") as folder:
        from nightdesk.guard.masking import mask_json
        from nightdesk.rehearsal import Plan, read_fault, read_night, rehearse
        from nightdesk.watch.logs import configure

        configure("ERROR", mask_json)
        plan = Plan(
            window=read_night(night, house.settings.night, house.clock.now()),
            batch_seconds=batch_minutes * 60,
            faults=[read_fault(stated) for stated in fault or ()],
            playbook=playbook,
            most=limit,
        )
        note("Providers are simulated. Your playbooks run as they are: what their steps write, they write.")
        with progress("tasks ended", None) as advance:
            outcome = rehearse(house, plan, Path(folder), _telling(advance))
    show_json(outcome.as_json()) if json else _show(outcome)


def _telling(advance: Callable[[int], None]) -> Callable[[int, int, datetime], None]:
    return lambda ended, _total, _at: advance(ended)


def _show(outcome: "Outcome") -> None:
    say(f"From {_wall(outcome.started_at)} to {_wall(outcome.ended_at)}, in {outcome.seconds} s:")
    show_fields(
        {
            "tasks": _counts(outcome.tasks),
            "calls": _counts(outcome.calls),
            "batches": outcome.batches,
            "cost": f"${outcome.cost_usd:.4f}, {outcome.saved_usd:.4f} less than live",
            "paid twice": outcome.paid_twice or "nothing",
        }
    )
    for incident in outcome.incidents:
        say(f"  {incident}")
    if outcome.not_done:
        show_table(("id", "playbook", "key", "state", "why"), outcome.not_done, "")


def _wall(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace(':', ' for ')}" for name, count in counted.items()) or "none"
