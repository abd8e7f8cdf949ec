"""`nightdesk plan`: what a night will do and what it leaves out, and changing that until it opens."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_fields, show_json, show_table

if TYPE_CHECKING:
    from nightdesk.night.showing import Item, Shown

app = typer.Typer(help="See the plan of a night, and change it until its window opens.", invoke_without_command=True)

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]
_FLOWS = ("playbook", "lane", "tasks", "at worst", "likely", "review minutes")
_REASONS = ("left out because", "tasks", "for one")
_TASKS = ("task", "playbook", "tenant", "priority", "lane", "at worst", "likely", "review minutes")


@app.callback()
def plan(
    context: typer.Context,
    night: Annotated[
        str | None, typer.Option(metavar="NIGHT", help="Its name, such as 2030-01-31; else the one under way or next.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="List so many of its tasks, in their order.")] = 10,
    json: JsonOption = False,
) -> None:
    """What the night will do: as it is stored, or as it would be if the plan were made now."""
    if context.invoked_subcommand is not None:
        return
    with opened(asks=True) as house:
        from nightdesk.night.showing import show_plan

        shown = show_plan(house, night)
        zone = ZoneInfo(house.settings.night.zone)
    show_json(_plain(shown)) if json else _show(shown, zone, limit)


@app.command("keep")
def keep(
    task_id: TaskId,
    anyway: Annotated[
        str, typer.Option(metavar="WHY", help="Why, although its playbook has not passed its launch test.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Choose a task that was left out, if it fits under every cap."""
    with opened() as house:
        from nightdesk.night.changing import keep as keep_in_plan

        night = keep_in_plan(house, task_id, actor=actor(), anyway=anyway)
    show_json({"task": task_id, "night": night, "chosen": True}) if json else say(f"{task_id} is in the night {night}.")


@app.command("drop")
def drop(task_id: TaskId, json: JsonOption = False) -> None:
    """Leave out a task that was chosen; it stays in the queue for another night."""
    with opened() as house:
        from nightdesk.night.changing import drop as drop_from_plan

        night = drop_from_plan(house, task_id, actor=actor())
    show_json({"task": task_id, "night": night, "chosen": False}) if json else say(f"{task_id} is left out of {night}.")


def _plain(shown: "Shown") -> dict[str, Any]:
    from nightdesk.night.sums import usd

    head = {name: getattr(shown, name) for name in ("night", "state", "cutoff_at", "starts_at", "stops_at", "later")}
    items = []
    for item in shown.items:
        row = item._asdict()
        money = {f"{name}_usd": usd(row.pop(f"{name}_micros")) for name in ("worst", "likely")}
        items.append({**row, **money, "priority": f"P{item.priority}"})
    return {**head, **shown.sums, "items": items}


def _show(shown: "Shown", zone: ZoneInfo, limit: int) -> None:
    sums = shown.sums
    hours = f"from {_wall(shown.starts_at, zone)} to {_wall(shown.stops_at, zone)}"
    made = f"is {shown.state}" if shown.state else f"is planned at {_wall(shown.cutoff_at, zone)}; now it would be this"
    say(f"The night {shown.night}, {hours}, {made}:")
    show_fields(
        {
            "tasks": f"{sums['tasks']:,}, and {sums['left_out']:,} left out",
            "cost": f"{_dollars(sums['likely_usd'])} likely, {_dollars(sums['worst_usd'])} at worst",
            "finish": _finish(sums, zone),
            "review": f"{sums['review_minutes']:g} of {sums['reviewer_minutes']:g} minutes",
        }
    )
    chosen = [item for item in shown.items if item.chosen]
    show_table(_FLOWS, _by_flow(chosen), "Nothing is planned.")
    if len(chosen) < len(shown.items):
        show_table(_REASONS, _by_reason([item for item in shown.items if not item.chosen]), "")
    if shown.later:
        note(f"{shown.later:,} of the tasks that are queued came after its cut-off; they are for a later night.")
    if chosen and limit:
        show_table(_TASKS, [_row(item) for item in chosen[:limit]], "")
        if limit < len(chosen):
            note(f"These are the first {limit}; for more: --limit, for all: --json")


def _finish(sums: dict[str, Any], zone: ZoneInfo) -> str:
    """A night whose planner has died, so that what he had written stands, has no forecast."""
    if not sums.get("finish"):
        return "not known"
    odds = "" if sums["odds"] is None else f"{sums['odds']:.0%}: "
    return f"{_wall(datetime.fromisoformat(sums['finish']), zone)} ({odds}{sums['odds_of']})"


def _by_flow(chosen: "Sequence[Item]") -> list[dict[str, object]]:
    flows: defaultdict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in chosen:
        flows[item.playbook, item.lane or ""].append(item)
    return [
        {
            "playbook": playbook,
            "lane": lane,
            "tasks": f"{len(items):,}",
            **_amounts(
                sum(item.worst_micros for item in items),
                sum(item.likely_micros for item in items),
                sum(item.review_minutes for item in items),
            ),
        }
        for (playbook, lane), items in sorted(flows.items())
    ]


def _by_reason(left_out: "Sequence[Item]") -> list[dict[str, object]]:
    """Grouped by what stands before the colon; behind it is what differs from task to task."""
    counts = Counter(item.why.partition(": ")[0] for item in left_out)
    examples = {item.why.partition(": ")[0]: item for item in reversed(left_out)}
    return [
        {
            "left out because": reason,
            "tasks": f"{count:,}",
            "for one": f"{examples[reason].task}: {examples[reason].why.partition(': ')[2]}".removesuffix(": "),
        }
        for reason, count in counts.most_common()
    ]


def _row(item: "Item") -> dict[str, object]:
    amounts = _amounts(item.worst_micros, item.likely_micros, item.review_minutes)
    return {**item._asdict(), **amounts, "priority": f"P{item.priority}"}


def _amounts(worst_micros: int, likely_micros: int, minutes: float) -> dict[str, object]:
    from nightdesk.guard.purses import dollars

    return {"at worst": dollars(worst_micros), "likely": dollars(likely_micros), "review minutes": f"{minutes:g}"}


def _dollars(usd: str) -> str:
    from nightdesk.guard.purses import dollars, to_micros

    return dollars(to_micros(Decimal(usd)))


def _wall(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"
