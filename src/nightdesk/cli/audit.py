"""`nightdesk audit`: whether the paper trail is as it was written."""

from dataclasses import asdict

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, note, progress, say, show_json

app = typer.Typer(help="The audit trail.", no_args_is_help=True)


@app.command("verify")
def verify(json: JsonOption = False) -> None:
    """Check the chain of events, and compare it with the head kept outside the database."""
    with opened(asks=True, patience_seconds=None) as house:
        from nightdesk.watch.audit import verify as verify_chain

        with progress("events", None) as advance:
            verdict = verify_chain(house.db, house.home / house.settings.audit.head_file, advance)
    if json:
        show_json(asdict(verdict))
    elif verdict.ok:
        kept = "as is the head kept beside the database" if verdict.head else "but no head was kept to compare with"
        say(f"The audit trail is whole: {verdict.rows} sealed events, {kept}; {verdict.unsealed} are not sealed yet.")
    else:
        note(f"The audit trail is broken at row {verdict.first_bad} of the chain: {verdict.problem}.")
        note("Keep the database as it is, and compare it with a backup from before that row.")
    if not verdict.ok:
        raise typer.Exit(1)
