from pathlib import Path

import pytest

from nightdesk.house import House
from tests.support.processes import Processes
from tests.support.scene import Scene


@pytest.fixture
def scene(house: House, processes: Processes, tmp_path: Path) -> Scene:
    """A house on either database, and the real program."""
    return Scene(house, processes, tmp_path / "drill.log")
