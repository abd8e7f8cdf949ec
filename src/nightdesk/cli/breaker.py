"""`nightdesk breaker`: which providers are left alone, and letting calls through again."""

from dataclasses import asdict
from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_json, show_table

app = typer.Typer(help="Breakers: which providers are left alone after errors.", no_args_is_help=True)

_COLUMNS = ("provider", "model", "lane", "state", "failures", "until", "why", "changed_at")


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """All that have seen errors, the newest change first."""
    with opened(asks=True) as house:
        from nightdesk.guard.breakers import list_breakers

        found = [asdict(breaker) for breaker in list_breakers(house.db)]
    if json:
        show_json({"items": found})
        return
    show_table(_COLUMNS, found, "No provider has failed.")
    latched = sorted({breaker["provider"] for breaker in found if breaker["state"] == "latched"})
    for provider in latched:
        note(f"Latched until you say that it is mended: nightdesk breaker reset {provider} --why TEXT")


@app.command("reset")
def reset(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help='As in anthropic; "*" for all.')],
    why: Annotated[str, typer.Option(help="The reason, for the paper trail.")],
    model: Annotated[str, typer.Option(help="Only this model.")] = "*",
    lane: Annotated[str, typer.Option(help="Only this lane: batch, flex or live.")] = "*",
    json: JsonOption = False,
) -> None:
    """Let calls through again, as after mending credentials or credit."""
    name, _, its_model = provider.partition(":")  # as models are written elsewhere
    with opened(asks=True) as house:
        from nightdesk.guard.breakers import reset as reset_breakers

        was = reset_breakers(house.db, house.clock, name, its_model or model, lane, why=why, actor=actor())
    if json:
        show_json({"reset": [asdict(breaker) for breaker in was]})
    elif was:
        say("Reset: " + ", ".join(f"{one.provider} {one.model} {one.lane} (was {one.state})" for one in was) + ".")
    else:
        note("All of these let calls through already; nothing was done.")
