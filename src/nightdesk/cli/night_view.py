"""The night as a person sees it: a live table in a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo

from nightdesk.cli.terminal import note

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from nightdesk.calendar import Window
    from nightdesk.night.progress import Progress

_LINE_EVERY_SECONDS = 5.0


class View(Protocol):
    def show(self, progress: "Progress") -> None:
        """The night as it is now."""

    def wait_for(self, window: "Window", now: datetime) -> None:
        """There is none yet; this one is next."""


@contextmanager
def view(zone: str) -> Iterator[View]:
    """On standard error, so that standard output is what comes of it; times are those of the house's zone."""
    wall = Wall(zone)
    if not sys.stderr.isatty():
        yield _Lines(wall)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield _Table(live, wall)


class Wall:
    """The clock on the wall of the house."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)

    def __call__(self, moment: datetime, shown: str = "%H:%M") -> str:
        return moment.astimezone(self._zone).strftime(shown)


class _Lines:
    """Says what is new, at most every few seconds."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self._said = ""
        self._at = float("-inf")

    def show(self, progress: "Progress") -> None:
        self._say(
            f"{progress.night} {progress.state}: {headline(progress, self._wall)}", at_once=progress.state == "closed"
        )

    def wait_for(self, window: "Window", now: datetime) -> None:
        self._say(_coming(window, self._wall), at_once=False)

    def _say(self, line: str, *, at_once: bool) -> None:
        if line != self._said and (at_once or time.monotonic() - self._at >= _LINE_EVERY_SECONDS):
            self._said, self._at = line, time.monotonic()
            note(line)


class _Table:
    def __init__(self, live: "Live", wall: Wall) -> None:
        self._live = live
        self._wall = wall

    def show(self, progress: "Progress") -> None:
        self._live.update(_drawn(progress, self._wall))

    def wait_for(self, window: "Window", now: datetime) -> None:
        self._live.update(f"{self._wall(now, '%H:%M:%S')}  {_coming(window, self._wall)}")


def headline(progress: "Progress", wall: Wall) -> str:
    """What is done and left, the money, and when it would be through."""
    done, review, dead = (sum(getattr(part, name) for part in progress.parts) for name in ("done", "review", "dead"))
    parts = [f"{done} done", f"{review} on the desk", f"{progress.left} left"]
    if dead:
        parts.append(f"{dead} dead")
    parts.append(_money(progress))
    if progress.rate:
        parts.append(f"{progress.rate:.0f} a minute")
    if progress.expected_at:
        parts.append(f"through by about {wall(progress.expected_at)}")
    return ", ".join([*parts, *progress.breakers])


def _money(progress: "Progress") -> str:
    cap = f" of ${progress.cap_usd:.2f}" if progress.cap_usd is not None else ""
    return f"${progress.cost_usd:.4f}{cap}"


def _coming(window: "Window", wall: Wall) -> str:
    planned = wall(window.cutoff, "%Y-%m-%d %H:%M")
    return f"The night of {window.name} is planned at {planned}, from {wall(window.start)} to {wall(window.stop)}."


def _drawn(progress: "Progress", wall: Wall) -> "Group":
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ("playbook", "done", "review", "dead", "working", "waiting", "left")
    for column in columns:
        table.add_column(column, justify="left" if column == "playbook" else "right")
    for part in progress.parts:
        table.add_row(*(Text(str(getattr(part, column))) for column in columns))
    times = f"{wall(progress.at, '%H:%M:%S')}, from {wall(progress.starts_at)} to {wall(progress.stops_at)}"
    head = Text(f"The night of {progress.night} is {progress.state}: {times}")
    return Group(head, table, Text(headline(progress, wall)))
