"""`nightdesk emit`: say that something has happened."""

import json as json_
from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, say, show_json
from nightdesk.errors import Invalid


def emit(
    event: Annotated[str, typer.Argument(help="The event, as in when: {event: name}.")],
    told: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="What is told of it, as JSON: the tasks' input.")
    ] = "{}",
    json: JsonOption = False,
) -> None:
    """Add a task of each playbook that waits for this event. The same again is recognised and not done twice."""
    try:
        values = json_.loads(told)
    except ValueError as error:
        raise Invalid("The input is not JSON", [("INPUT", str(error))], "Quote it for the shell.") from None
    with opened() as house:
        from nightdesk.intake.happening import tell_of

        receipts = tell_of(house, event, values, actor=actor())
    if json:
        show_json({"items": [{"id": receipt.id, "created": receipt.created} for receipt in receipts]})
        return
    for receipt in receipts:
        say(f"Task {receipt.id} {'is ' + receipt.state if receipt.created else 'was there already'}.")
