from collections.abc import Iterator
from pathlib import Path

import pytest

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from nightdesk.model.simulator import Behaviour, Simulator, environment, running
from tests.conftest import make_house_folder
from tests.night.keeper import NOON, AskingKeeper, Keeper, asks


@pytest.fixture
def keeper(house_folder: Path) -> Iterator[Keeper]:
    """A house on either database, at noon, with a playbook `job` for the night."""
    yield from _open(house_folder)


@pytest.fixture
def quick_keeper(tmp_path: Path, sqlite_url: str) -> Iterator[Keeper]:
    """The same on SQLite alone, for what is no matter of the database."""
    yield from _open(make_house_folder(tmp_path / "house", sqlite_url))


@pytest.fixture
def asking_keeper(house_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskingKeeper]:
    """The same on either database, whose `job` asks a model for a draft; a batch takes forty minutes."""
    clock = SetClock(NOON)
    with running(Simulator(Behaviour(batch_seconds=2400))) as served:
        for name, value in environment(served.url).items():
            monkeypatch.setenv(name, value)
        house = open_house(house_folder, clock=clock)
        keeper = AskingKeeper(house, clock, served)
        keeper.have(asks, output={"text": "string"}, risk="customer", review={"minutes": 4})
        yield keeper
        house.close()


def _open(folder: Path) -> Iterator[Keeper]:
    clock = SetClock(NOON)
    house = open_house(folder, clock=clock)
    keeper = Keeper(house, clock)
    keeper.have()
    yield keeper
    house.close()
