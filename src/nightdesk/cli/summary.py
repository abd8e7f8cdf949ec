"""`nightdesk summary`: what a night came to, as it is told in the morning."""

from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, say, show_json


def summary(
    night: Annotated[str | None, typer.Argument(help="The night's name, its evening's date; else the last.")] = None,
    json: JsonOption = False,
) -> None:
    """What a night came to, and what is to be done about it."""
    with opened(asks=True) as house:
        from nightdesk.night.summary import closed_night, summary_of

        found = closed_night(house, night)
    if json:
        show_json({"night": found["name"], **found["figures"]})
        return
    heading, text = summary_of(found)
    say(f"{heading}\n\n{text}")
