"""`nightdesk lint`: what is allowed, and not wise."""

from dataclasses import asdict
from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, say, show_json


def lint(
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is anything to mend.")] = False,
    json: JsonOption = False,
) -> None:
    """Point out missing limits, tests and notification, chains with nothing in parallel, and idle schedules."""
    with opened(asks=True) as house:
        from nightdesk.night.lint import advise

        found = advise(house)
    if json:
        show_json({"items": [asdict(advice) for advice in found]})
    else:
        for advice in found:
            say(f"{advice.rule}: {advice.playbook + ': ' if advice.playbook else ''}{advice.says}")
            say(f"      {advice.mend}")
        say(f"{len(found)} to mend." if found else "There is nothing to mend.")
    if strict and found:
        raise typer.Exit(1)
