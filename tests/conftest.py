"""What every test may ask for: a fresh database of either kind, and a house to use it in."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import PostgresServer
from tests.support.processes import Processes
from tests.support.scene import Scene

if TYPE_CHECKING:
    from nightdesk.house import House

_TEMPLATE = "migrated"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("NIGHTDESK_", "PG"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that the tests of this process share; for a test that stops its server there is `own_postgres`."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A durable server for this test alone, to be stopped, killed and restarted."""
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def _postgres_template(postgres_server: PostgresServer) -> str:
    _bring_up_to_date(postgres_server.create_database(_TEMPLATE))
    return _TEMPLATE


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "nightdesk.db"
    _bring_up_to_date(f"sqlite:///{file}")
    return file


def _bring_up_to_date(url: str) -> None:
    from nightdesk.engine import prepare
    from nightdesk.store import migrate, open_database

    prepare(url)
    database = open_database(url)
    migrate(database)
    database.close()


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """A migrated SQLite database of this test's own."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'nightdesk.db')}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, _postgres_template: str) -> Iterator[str]:
    """A migrated Postgres database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name, template=_postgres_template)
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The test runs twice: on a migrated SQLite database, and on a migrated Postgres database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """As `database_url`, without any tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"empty_{uuid.uuid4().hex}"
    yield server.create_database(name)
    server.drop_database(name)


@pytest.fixture
def house_folder(tmp_path: Path, database_url: str) -> Path:
    """A house's folder, whose nightdesk.toml names the database."""
    return make_house_folder(tmp_path / "house", database_url)


@pytest.fixture
def house(house_folder: Path) -> "Iterator[House]":
    from nightdesk.house import open_house

    opened = open_house(house_folder)
    yield opened
    opened.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts the real program; whatever still runs when the test ends is killed."""
    logs = tmp_path / "logs"
    logs.mkdir()
    started = Processes(logs)
    yield started
    started.close()


@pytest.fixture
def scene(house_folder: Path, processes: Processes, tmp_path: Path) -> "Iterator[Scene]":
    """A house on either database, the real program, and the drill's log."""
    from nightdesk.house import open_house

    house = open_house(house_folder)
    yield Scene(house, processes, tmp_path / "drill.log")
    house.close()


@pytest.fixture
def own_postgres_scene(own_postgres: PostgresServer, processes: Processes, tmp_path: Path) -> "Iterator[Scene]":
    """The same on a Postgres server that the test may stop and kill."""
    from nightdesk.house import open_house

    house = open_house(make_house_folder(tmp_path / "house", own_postgres.create_database("house")))
    yield Scene(house, processes, tmp_path / "drill.log")
    house.close()


def make_house_folder(folder: Path, database_url: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "nightdesk.toml").write_text(f'[database]\nurl = "{database_url}"\n', encoding="utf-8")
    return folder
