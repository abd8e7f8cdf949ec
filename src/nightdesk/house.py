"""The house, opened: a folder with its settings, playbooks and database, handed to the rooms as one object."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightdesk.clock import Clock, SystemClock
from nightdesk.engine import Dispatcher, prepare
from nightdesk.guard.disk import DiskGuard
from nightdesk.playbook import Registry, load_registry
from nightdesk.settings import DatabaseSettings, Settings, database_url, load_settings
from nightdesk.store import Database, migrate, open_database, pending_migrations


@dataclass(frozen=True)
class House:
    home: Path
    settings: Settings
    db: Database
    registry: Registry
    dispatcher: Dispatcher
    clock: Clock
    disk: DiskGuard

    @property
    def url(self) -> str:
        return database_url(self.settings, self.home)

    def close(self) -> None:
        self.dispatcher.close()
        self.db.close()


def home_folder() -> Path:
    return Path(os.environ.get("NIGHTDESK_HOME") or ".").absolute()


def open_house(home: Path | None = None, *, clock: Clock | None = None, patience_seconds: int | None = None) -> House:
    """Open the house at `home` (default: $NIGHTDESK_HOME, else here), bringing its tables up to date."""
    home = home or home_folder()
    settings = load_settings(home)
    patience = patience_seconds or settings.database.patience_seconds
    return _opened(home, settings, load_registry(home), clock or SystemClock(), patience)


def open_beside(house: House, folder: Path, registry: Registry, **sections: Any) -> House:
    """A house to try something out in: with an SQLite file in the folder, other playbooks, and sections of the settings
    that are others."""
    database = DatabaseSettings(url=f"sqlite:///{folder / 'nightdesk.db'}")
    settings = house.settings.model_copy(update={"database": database, **sections})
    return _opened(folder, settings, registry, house.clock, database.patience_seconds)


def _opened(home: Path, settings: Settings, registry: Registry, clock: Clock, patience_seconds: int) -> House:
    url = database_url(settings, home)
    db = open_database(url, patience_seconds=patience_seconds)
    if pending_migrations(db):
        prepare(url)
        migrate(db)
    return House(
        home=home,
        settings=settings,
        db=db,
        registry=registry,
        dispatcher=Dispatcher(url),
        clock=clock,
        disk=DiskGuard(_folder_of(url, home), settings.disk),
    )


def _folder_of(url: str, home: Path) -> Path:
    """Where the data lies, as far as this machine can see: SQLite's file, else the house itself."""
    database = sa.make_url(url)
    is_file = database.get_backend_name() == "sqlite" and database.database
    return Path(str(database.database)).parent if is_file else home
