from collections.abc import Iterator
from pathlib import Path

import pytest

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from tests.support.hand import START, Hand


@pytest.fixture
def hand(house_folder: Path) -> Iterator[Hand]:
    """A worker on a fresh house whose clock stands at 22:00 until it is moved."""
    clock = SetClock(START)
    house = open_house(house_folder, clock=clock)
    yield Hand(house, clock)
    house.close()
