import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightdesk.clock import SetClock
from nightdesk.house import House, open_house
from tests.conftest import make_house_folder
from tests.model.conftest import asking, asking_anywhere, providers
from tests.review.morning import Morning
from tests.support.hand import START, Hand
from tests.work.conftest import hand

__all__ = ["asking", "asking_anywhere", "hand", "providers"]


@pytest.fixture
def sqlite_house(tmp_path: Path, sqlite_url: str) -> Iterator[House]:
    """What does not depend on the database need not be tested on both."""
    house = open_house(make_house_folder(tmp_path / "house", sqlite_url))
    yield house
    house.close()


@pytest.fixture
def sqlite_hand(sqlite_house: House) -> Hand:
    clock = SetClock(START)
    return Hand(dataclasses.replace(sqlite_house, clock=clock), clock)


@pytest.fixture
def morning(house_folder: Path) -> Iterator[Morning]:
    """On either database."""
    yield from _morning(house_folder)


@pytest.fixture
def quick_morning(tmp_path: Path, sqlite_url: str) -> Iterator[Morning]:
    """On SQLite alone, for what is no matter of the database."""
    yield from _morning(make_house_folder(tmp_path / "house", sqlite_url))


def _morning(folder: Path) -> Iterator[Morning]:
    clock = SetClock(START)
    house = open_house(folder, clock=clock)
    morning = Morning(house, clock)
    morning.open()
    yield morning
    house.close()
