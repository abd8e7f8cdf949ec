"""The house that a command works in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nightdesk.cli.terminal import note
from nightdesk.errors import NotFound

if TYPE_CHECKING:  # opening the house imports the database and the queue, which `--help` need not wait for
    from nightdesk.house import House

# A person at a terminal waits less long for a database than a worker does.
_PATIENCE_SECONDS = 10


def home_folder() -> Path:
    return Path(os.environ.get("NIGHTDESK_HOME") or ".").absolute()


def is_house(home: Path) -> bool:
    return any((home / name).exists() for name in ("nightdesk.toml", "nightdesk.db"))


def is_chosen() -> bool:
    """Whether the environment says which house is meant, so that it needs no marks of one."""
    return bool(os.environ.get("NIGHTDESK_HOME") or os.environ.get("NIGHTDESK_DATABASE_URL"))


def require_house() -> Path:
    home = home_folder()
    if not (home.is_dir() and (is_chosen() or is_house(home))):
        next_step = "Go to its folder, set NIGHTDESK_HOME, or run: nightdesk init"
        raise NotFound(f"There is no house in {home}.", next_step)
    return home


@contextmanager
def opened(
    home: Path | None = None, *, asks: bool = False, patience_seconds: int | None = _PATIENCE_SECONDS
) -> Iterator["House"]:
    """The house here. A command that only asks refuses a folder that is none; one that acts makes it a house."""
    if home is None:
        home = require_house() if asks else home_folder()
        if not (is_chosen() or is_house(home)):
            note(f"{home} becomes a house: its tasks are kept in nightdesk.db there.")
    from nightdesk.house import open_house

    house = open_house(home, patience_seconds=patience_seconds)
    try:
        yield house
    finally:
        house.close()
