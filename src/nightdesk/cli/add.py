"""`nightdesk add`: hand in one task, or a sheet of many."""

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, say, show_json
from nightdesk.errors import Invalid

if TYPE_CHECKING:
    from nightdesk.canonical import Json
    from nightdesk.house import House
    from nightdesk.intake import Submission
    from nightdesk.intake.sheets import Sheet

_INPUT = "The input: JSON, or @FILE with JSON in it, or - to read JSON (or a line of it per task) from standard input."
_HOW_TO_QUOTE = """Quote it for the shell, as in '{"name": "first"}', or put it into a file: @input.json"""
_MORE_THAN_ONE = "A key names one task; leave --key out and let the playbook make the keys."


def add(
    playbook: Annotated[str, typer.Argument(help="The playbook to run.")],
    stated: Annotated[str | None, typer.Argument(metavar="[INPUT]", help=_INPUT)] = None,
    file: Annotated[Path | None, typer.Option(help="A sheet with a task per row: .csv, .jsonl or .xlsx.")] = None,
    key: Annotated[str | None, typer.Option(help="What makes it the same task when it comes again.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose task it is.")] = "main",
    priority: Annotated[str | None, typer.Option(help="P0 (first) to P3 (last).")] = None,
    not_before: Annotated[str | None, typer.Option(help="Start no earlier: 2030-01-31T22:00:00+01:00.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="Not worth doing after this moment.")] = None,
    callback_url: Annotated[str | None, typer.Option(help="Told when the task has ended.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, store nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a task, or a sheet of them. The same task again is recognised and not done twice."""
    if file is not None and stated is not None:
        raise typer.BadParameter("Give the input or a file, not both.", param_hint="--file")
    moments = {"not_before": _moment("not-before", not_before), "expires_at": _moment("expires-at", expires_at)}
    with opened() as house:
        from nightdesk.cli.bulk import add_rows
        from nightdesk.intake import Submission
        from nightdesk.intake.sheets import Sheet, open_sheet

        schema = house.registry.get(playbook).input.model_json_schema()
        given = open_sheet(file, schema) if file else _read(stated)
        sample = Submission(playbook, {}, key, tenant, _priority(priority), **moments, callback_url=callback_url)
        if not isinstance(given, Sheet):
            _add_one(house, replace(sample, input=given), dry_run, json)
        elif key is not None:
            raise typer.BadParameter(_MORE_THAN_ONE, param_hint="--key")
        else:
            add_rows(house, sample, given, file.name if file else "the input", dry_run=dry_run).show(json)


def _add_one(house: "House", submission: "Submission", dry_run: bool, json: bool) -> None:
    from nightdesk.intake import submit
    from nightdesk.intake.submit import check

    if dry_run:
        checked = check(house, submission)
        show_json({"input": checked}) if json else say("The input is valid; nothing was stored.")
        return
    receipt = submit(house, submission, actor=actor())
    if json:
        show_json({"id": receipt.id, "state": receipt.state, "created": receipt.created})
    else:
        say(f"{receipt.id} {receipt.state}" + ("" if receipt.created else " (it was here already)"))


def _read(stated: str | None) -> "Json | Sheet":
    """The input as JSON; a list, or the lines of a stream, as a sheet."""
    from nightdesk.intake.sheets import json_lines, listed, parse_json

    if stated is None:
        return {}
    text = _text(stated)
    try:
        value = parse_json(text)
    except ValueError as error:
        if stated == "-" and (lines := json_lines(text)):
            return lines
        raise _not_json(error) from None
    return listed(value) if isinstance(value, list) else value


def read_json(stated: str) -> "Json":
    """One value: JSON, or @FILE with JSON in it, or - for standard input."""
    from nightdesk.intake.sheets import parse_json

    try:
        return parse_json(_text(stated))
    except ValueError as error:
        raise _not_json(error) from None


def _not_json(error: ValueError) -> Invalid:
    return Invalid("The input cannot be read", [("", f"it is not JSON: {error}")], _HOW_TO_QUOTE)


def _text(stated: str) -> str:
    try:
        if stated == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if stated.startswith("@"):
            return Path(stated[1:]).read_bytes().decode("utf-8-sig")
        return stated.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("The input cannot be read", [("", "it is not UTF-8")], "Save it as UTF-8.") from None


def _moment(option: str, stated: str | None) -> datetime | None:
    if stated is None:
        return None
    try:
        moment = datetime.fromisoformat(stated)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        problem = "must be a date and time with its zone, such as 2030-01-31T22:00:00+01:00"
        raise typer.BadParameter(problem, param_hint=f"--{option}")
    return moment


def _priority(stated: str | None) -> str | None:
    if stated is not None and stated.upper() not in ("P0", "P1", "P2", "P3", "0", "1", "2", "3"):
        raise typer.BadParameter("must be P0, P1, P2 or P3", param_hint="--priority")
    return f"P{stated[-1]}" if stated else None
