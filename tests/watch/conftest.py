"""A database and a clock for the rooms under test."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from nightdesk.clock import SetClock
from nightdesk.store import Database, open_database


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> SetClock:
    return SetClock(datetime(2026, 3, 1, 22, 0, tzinfo=UTC))
