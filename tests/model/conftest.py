from collections.abc import Iterator
from pathlib import Path

import pytest

from nightdesk.house import open_house
from nightdesk.model.simulator import Behaviour, Running, Simulator, environment, running
from tests.conftest import make_house_folder
from tests.model.asking import START, AskingHouse, SharedClock


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """The simulator, in the environment variables of the SDKs. A batch takes ten seconds of its time."""
    with running(Simulator(Behaviour(batch_seconds=10))) as served:
        for name, value in environment(served.url).items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def asking(tmp_path: Path, sqlite_url: str, providers: Running) -> Iterator[AskingHouse]:
    """A worker on a fresh house that asks the simulator; its clock stands at 22:00 until it is moved."""
    yield from _open(make_house_folder(tmp_path / "house", sqlite_url), providers)


@pytest.fixture
def asking_anywhere(house_folder: Path, providers: Running) -> Iterator[AskingHouse]:
    """The same on both databases."""
    yield from _open(house_folder, providers)


def _open(folder: Path, providers: Running) -> Iterator[AskingHouse]:
    clock = SharedClock(START, providers.simulator)
    house = open_house(folder, clock=clock)
    asking = AskingHouse(house, clock, providers)
    yield asking
    asking.close_room()
    house.close()
