"""`pause`, `stop` and `resume`: a row in `switches` that every worker obeys within two seconds."""

from typing import Annotated, Literal

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, say, show_json
from nightdesk.errors import NotFound

Playbook = Annotated[str, typer.Option(help="Only this playbook.")]
Tenant = Annotated[str, typer.Option(help="Only this tenant.")]
Connector = Annotated[str, typer.Option(help="Only this connector.")]
Why = Annotated[str, typer.Option(help="The reason, for those who find it switched off.")]


def pause(
    why: Why, playbook: Playbook = "", tenant: Tenant = "", connector: Connector = "", json: JsonOption = False
) -> None:
    """Start no new work; what runs may end."""
    _set("pause", playbook, tenant, connector, why, json)


def stop(
    why: Why, playbook: Playbook = "", tenant: Tenant = "", connector: Connector = "", json: JsonOption = False
) -> None:
    """Start no new work, and end what runs at its next step."""
    _set("stop", playbook, tenant, connector, why, json)


def resume(
    why: Why, playbook: Playbook = "", tenant: Tenant = "", connector: Connector = "", json: JsonOption = False
) -> None:
    """Take back a pause or a stop of the same scope."""
    with opened() as house:
        from nightdesk.guard.switches import clear_switch

        covers = {"playbook": playbook, "tenant": tenant, "connector": connector}
        cleared = clear_switch(house.db, house.clock, **covers, actor=actor(), why=why)
    if not cleared:
        raise NotFound(f"Nothing is switched off for {_scope(covers)}.", "See what is: nightdesk status")
    show_json({"mode": None, **covers}) if json else say(f"Work goes on for {_scope(covers)}.")


def _set(mode: Literal["pause", "stop"], playbook: str, tenant: str, connector: str, why: str, json: bool) -> None:
    covers = {"playbook": playbook, "tenant": tenant, "connector": connector}
    with opened() as house:
        from nightdesk.guard.switches import set_switch

        if playbook:
            house.registry.get(playbook)  # a switch on a misspelt name would stop nothing
        set_switch(house.db, house.clock, mode=mode, **covers, why=why, actor=actor())
    if json:
        show_json({"mode": mode, **covers, "why": why})
        return
    done = "Paused" if mode == "pause" else "Stopped"
    flags = "".join(f" --{name} {value}" for name, value in covers.items() if value)
    say(f"{done}: {_scope(covers)}. To go on: nightdesk resume{flags}")


def _scope(covers: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in covers.items() if value) or "everything"
