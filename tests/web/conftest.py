from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nightdesk.clock import SetClock
from nightdesk.house import House, open_house
from tests.support.hand import START
from tests.support.web import WebServer


@pytest.fixture
def clock() -> SetClock:
    return SetClock(START)


@pytest.fixture
def timed_house(house_folder: Path, clock: SetClock) -> Iterator[House]:
    """A house whose clock stands still until it is moved."""
    house = open_house(house_folder, clock=clock)
    yield house
    house.close()


@pytest.fixture
def server(timed_house: House) -> Iterator[WebServer]:
    """The API of that house, on a free port."""
    with WebServer(timed_house) as running:
        yield running


@pytest.fixture
def api(server: WebServer) -> Iterator[httpx.Client]:
    """A client that may do everything."""
    with server.client() as client:
        yield client
