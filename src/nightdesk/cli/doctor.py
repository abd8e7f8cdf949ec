"""`nightdesk doctor`: what is wrong with this house, and how to mend it."""

from dataclasses import asdict

import typer

from nightdesk.cli.rooms import require_house
from nightdesk.cli.terminal import JsonOption, say, show_json

_COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "bad": typer.colors.RED}


def doctor(json: JsonOption = False) -> None:
    """Check the house, and say how to mend what is wrong."""
    home = require_house()
    from nightdesk.cli.checks import examine

    findings = list(examine(home))
    sick = [finding for finding in findings if finding.level == "bad"]
    if json:
        show_json({"ok": not sick, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            typer.secho(f"{finding.level:<5}", nl=False, fg=_COLOURS[finding.level])
            say(f"{finding.check}: {finding.says}")
            if finding.mend:
                say(f"      {finding.mend}")
        say(f"{len(sick)} to mend." if sick else "The house is in order.")
    if sick:
        raise typer.Exit(1)
