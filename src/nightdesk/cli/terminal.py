"""What commands write: JSON for programs, tables for people, progress while they wait."""

import getpass
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import typer

from nightdesk.cli.refusals import visible

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_LINE_EVERY_SECONDS = 5.0
_UNBOUNDED = 10_000  # a pipe has no width; tables must not be cut for it


def actor() -> str:
    """Who the paper trail says did it."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container whose user has no name
        return "cli"


def say(text: str) -> None:
    typer.echo(visible(text))


def note(text: str) -> None:
    """Something for the person, not for the pipe."""
    typer.echo(visible(text), err=True)


def show_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], empty: str) -> None:
    """The named columns of the rows, or the sentence `empty` if there are none."""
    if not rows:
        say(empty)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False).print(table)


def show_fields(fields: Mapping[str, object]) -> None:
    """One `name: value` per line, the empty ones left out."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value not in (None, "", [], {}):
            say(f"{name.replace('_', ' '):<{width}}  {cell(value)}")


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return visible(json.dumps(value, default=_plain, ensure_ascii=False))
    return visible(str(_plain(value) if not isinstance(value, str) else value))


def confirmed(question: str, yes: bool) -> bool:
    """A person at a terminal is asked; a script has said what it wants."""
    return yes or not sys.stdin.isatty() or typer.confirm(question, err=True)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Gives a function to be called with the number done so far: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _lines(label, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def _lines(label: str, total: int | None) -> Callable[[int], None]:
    of = f" of {total}" if total is not None else ""
    last = time.monotonic()

    def advance(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY_SECONDS:
            last = time.monotonic()
            note(f"{label}: {done}{of}")

    return advance
