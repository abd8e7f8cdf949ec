"""Adding many tasks: in chunks, each one transaction, with a report of the rows that were refused."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from nightdesk.cli.terminal import actor, note, progress, say, show_json
from nightdesk.errors import Conflict, Invalid
from nightdesk.intake import Submission, submit_in
from nightdesk.intake.sheets import Row, Sheet
from nightdesk.intake.submit import check

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from nightdesk.house import House

# Few enough that workers sharing a SQLite file wait only a moment, many enough that a disk sync serves them all.
_CHUNK = 200
_MOST_SHOWN = 50


@dataclass
class Outcome:
    """What became of the rows. `known` were handed in before."""

    dry_run: bool
    rows: int = 0
    added: int = 0
    known: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, row: Row, faults: tuple[tuple[str, str], ...]) -> None:
        listed = [{"path": path, "problem": problem} for path, problem in faults]
        self.refused.append({"row": row.number, "faults": listed})

    def show(self, json: bool) -> None:
        """Print the report; end with exit code 1 if a row was refused."""
        if json:
            show_json(vars(self))
        else:
            self._show_refused()
            say(self._summary())
        if self.refused:
            raise typer.Exit(1)

    def _show_refused(self) -> None:
        for refused in self.refused[:_MOST_SHOWN]:
            note(f"row {refused['row']} is refused:")
            for fault in refused["faults"]:
                note(f"  {fault['path']}: {fault['problem']}" if fault["path"] else f"  {fault['problem']}")
        if len(self.refused) > _MOST_SHOWN:
            note(f"and {len(self.refused) - _MOST_SHOWN} more rows; see them all with --json")
        if self.refused and not self.dry_run:
            note("Mend these rows and add the same file again: the others are recognised.")

    def _summary(self) -> str:
        if self.dry_run:
            return f"{self.rows} rows: {self.rows - len(self.refused)} valid, {len(self.refused)} refused."
        return f"{self.rows} rows: {self.added} added, {self.known} here already, {len(self.refused)} refused."


def add_rows(house: "House", sample: Submission, sheet: Sheet, label: str, *, dry_run: bool) -> Outcome:
    """Submit each row as the sample with the row's input."""
    outcome = Outcome(dry_run)
    rows = sheet.rows()
    take = _check if dry_run else _store
    try:
        with progress(label, sheet.total) as advance:
            while chunk := list(islice(rows, _CHUNK)):
                take(house, sample, chunk, outcome)
                outcome.rows += len(chunk)
                advance(outcome.rows)
    except BaseException:
        if outcome.added:
            note(
                f"Stopped after {outcome.rows} of {sheet.total} rows; those are stored. Adding it again goes on there."
            )
        raise
    return outcome


def _check(house: "House", sample: Submission, chunk: list[Row], outcome: Outcome) -> None:
    for row in _readable(chunk, outcome):
        try:
            check(house, replace(sample, input=row.input))
        except Invalid as error:
            outcome.refuse(row, error.faults)


def _store(house: "House", sample: Submission, chunk: list[Row], outcome: Outcome) -> None:
    """One transaction for the chunk. What it did is counted once it is committed."""
    done = Outcome(outcome.dry_run)
    with house.db.write() as conn:
        for row in _readable(chunk, done):
            _submit(house, conn, sample, row, done)
    outcome.added += done.added
    outcome.known += done.known
    outcome.refused += done.refused


def _readable(chunk: list[Row], outcome: Outcome) -> Iterator[Row]:
    for row in chunk:
        if row.faults:
            outcome.refuse(row, row.faults)
        else:
            yield row


def _submit(house: "House", conn: "Connection", sample: Submission, row: Row, outcome: Outcome) -> None:
    try:
        with conn.begin_nested():  # a row that is refused halfway leaves nothing behind
            receipt = submit_in(house, conn, replace(sample, input=row.input), actor=actor())
    except Invalid as error:
        outcome.refuse(row, error.faults or (("", error.problem),))
    except Conflict as error:
        outcome.refuse(row, (("", error.problem), *((path, "differs") for path in error.differs)))
    else:
        outcome.added += receipt.created
        outcome.known += not receipt.created
