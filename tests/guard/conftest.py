"""A database and a clock for the rooms under test."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.store import Database, metadata, open_database
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def guard_postgres(postgres_server: PostgresServer, _postgres_template: str) -> Iterator[str]:
    """One for all tests of this room, which are many and small: to empty it is quicker than to make another."""
    yield postgres_server.create_database("guard", template=_postgres_template)
    postgres_server.drop_database("guard")


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """The test runs twice, on a database of either kind with nothing in its tables."""
    if request.param == "postgres":
        opened = open_database(request.getfixturevalue("guard_postgres"))
        _empty(opened)
    else:
        template = request.getfixturevalue("sqlite_template")
        opened = open_database(f"sqlite:///{shutil.copy(template, tmp_path / 'nightdesk.db')}")
    yield opened
    opened.close()


def _empty(db: Database) -> None:
    with db.write() as conn:
        conn.execute(sa.text("SET LOCAL session_replication_role = replica"))  # no trigger keeps the events
        for table in metadata.sorted_tables:
            conn.execute(table.delete())


@pytest.fixture
def clock() -> SetClock:
    return SetClock(datetime(2026, 3, 1, 22, 0, tzinfo=UTC))
