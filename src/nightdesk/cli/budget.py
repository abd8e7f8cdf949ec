"""`nightdesk budget`: what is spent, what is reserved, and allowing more."""

from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_json, show_table

if TYPE_CHECKING:
    from nightdesk.guard.caps import Budget
    from nightdesk.guard.purses import Purse, Scope
    from nightdesk.house import House

app = typer.Typer(help="Budgets: what is spent and reserved, and allowing more.", no_args_is_help=True)

_COLUMNS = ("budget", "limit", "raised", "spent", "reserved", "left", "asked_at")
_MONEY = ("limit", "raised", "reserved", "spent", "left")


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=2, max=10_000, help="At most so many.")] = 50, json: JsonOption = False
) -> None:
    """Budgets of today and tonight, those that hold reservations, and those that a person is asked about."""
    with opened(asks=True) as house:
        from nightdesk.guard.caps import count_waiting, list_budgets

        found = list_budgets(house.db, house.settings, house.clock.now(), most=limit)
        waiting = count_waiting(house.db)
    if json:
        show_json({"items": [_plain(budget) for budget in found], "waiting": waiting})
        return
    show_table(_COLUMNS, [_row(budget) for budget in found], "Nothing was paid today, and there is no cap.")
    if len(found) == limit:
        note(f"These are the first {limit}; there may be more: --limit")
    if waiting:
        wait = "1 task waits" if waiting == 1 else f"{waiting:,} tasks wait"
        note(f"{wait} for money. To allow more: nightdesk budget raise DOLLARS --why TEXT")


@app.command("raise")
def raise_(
    amount: Annotated[str, typer.Argument(metavar="DOLLARS", help="How much more, as in 5 or 2.50.")],
    why: Annotated[str, typer.Option(help="The reason, for the paper trail.")],
    playbook: Annotated[str | None, typer.Option(help="Today's budget of this playbook.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Today's budget of this tenant.")] = None,
    task: Annotated[str | None, typer.Option(help="The budget of the task with this id.")] = None,
    night: Annotated[bool, typer.Option("--night", help="The budget of this night; from noon on, the next.")] = False,
    json: JsonOption = False,
) -> None:
    """Allow more in one budget until it ends; without an option, in that of today."""
    named: dict[Scope, str | None] = {"playbook": playbook, "tenant": tenant, "task": task}
    named["night"] = "" if night else None
    scope, name = _only([(scope, name) for scope, name in named.items() if name is not None])
    more = _dollars(amount)
    with opened(asks=True) as house:
        from nightdesk.guard.caps import raise_cap

        purse = _purse(house, scope, name)
        raised = raise_cap(house.db, house.clock, purse, more, why=why, actor=actor())
    if json:
        show_json(_plain(raised))
        return
    row = _row(raised)
    left = f"{row['spent']} is spent, {row['reserved']} reserved, {row['left']} left"
    say(f"The budget of {row['budget']} is {row['total']} now: {left}.")


def _only(chosen: "list[tuple[Scope, str]]") -> "tuple[Scope, str]":
    if len(chosen) > 1:
        raise typer.BadParameter("Name one budget.", param_hint=f"--{chosen[1][0]}")
    return chosen[0] if chosen else ("day", "")


def _purse(house: "House", scope: "Scope", name: str) -> "Purse":
    """The budget of that name. Something must be known by it, for more money in a misspelt one would help nobody."""
    from nightdesk.guard.caps import require_tenant
    from nightdesk.guard.purses import purse_of

    cap = None
    if scope == "tenant":
        require_tenant(house.db, house.settings, name)
    elif scope == "playbook":
        cap = house.registry.get(name).asking.day_cap
    elif scope == "task":
        cap = house.registry.get(_playbook_of(house, name)).asking.task_cap
    return purse_of(house.settings, house.clock.now(), scope, name, cap)


def _playbook_of(house: "House", task_id: str) -> str:
    from nightdesk.work.insight import find_task

    return str(find_task(house, task_id)["playbook"])


def _dollars(text: str) -> Decimal:
    try:
        return Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        raise typer.BadParameter(f'"{text}" is no amount of dollars.', param_hint="DOLLARS") from None


def _plain(budget: "Budget") -> dict[str, Any]:
    """Money as dollars, exact to a millionth."""
    fields = {**asdict(budget), "left_micros": budget.left_micros}
    money = {f"{name}_usd": fields.pop(f"{name}_micros") for name in _MONEY}
    exact = {name: None if micros is None else f"{Decimal(micros).scaleb(-6):f}" for name, micros in money.items()}
    return {**fields, **exact}


def _row(budget: "Budget") -> dict[str, object]:
    from nightdesk.guard.purses import dollars, title

    micros = {name: getattr(budget, f"{name}_micros") for name in _MONEY}
    micros["total"] = (budget.limit_micros or 0) + budget.raised_micros
    shown = {name: "none" if amount is None else dollars(amount) for name, amount in micros.items()}
    return {"budget": title(budget.scope, budget.name, budget.day), "asked_at": budget.asked_at, **shown}
