"""Real workers in a real night: two of them run it once, and at its hard stop both let go of what they have."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.engine import workers
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit_in
from nightdesk.night.planning import make_plan
from nightdesk.night.schedule import read_night
from nightdesk.store import events, tasks
from nightdesk.work.insight import count_states
from tests.conftest import make_house_folder
from tests.support.playbooks import write_yaml
from tests.support.processes import Processes, wait_until

_QUICK, _ENDLESS = 40, 6
_SECONDS = 5
_PLAYBOOK = """
    name: job
    when: night
    risk: internal
    input: {name: string}
    key: "{name}"
    run: run.py:work
"""
_RUN = """
    import asyncio
    import os


    async def work(order, desk):
        for number in range(3):
            await desk.step(f"step-{number}", step, order.name, number)
        if order.name.startswith("endless"):
            await desk.step("endless", asyncio.sleep, 3600)


    async def step(name, number):
        file = os.open(os.environ["NIGHTDESK_DRILL_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{name} {number}\\n".encode())
        os.close(file)
"""


@pytest.fixture
def house(tmp_path: Path, postgres_url: str) -> Iterator[House]:
    folder = make_house_folder(tmp_path / "house", postgres_url)
    write_yaml(folder, _PLAYBOOK, "job", _RUN)
    opened = open_house(folder)
    yield opened
    opened.close()


@pytest.mark.timeout(180)
def test_two_workers_run_a_night_once_and_stop_at_its_end(house: House, processes: Processes, tmp_path: Path) -> None:
    log = tmp_path / "steps.log"
    for _ in range(2):
        processes.start(house.home, "worker", env={"NIGHTDESK_DRILL_LOG": str(log)})
    wait_until(lambda: len(workers(house.db)) == 2, 60, "both workers are there")
    quick = [f"quick-{number}" for number in range(_QUICK)]
    first = _begin(house, quick, timedelta(hours=1))
    _wait_for_the_end(house, first)
    assert count_states(house) == {"done": _QUICK}
    assert Counter(log.read_text(encoding="utf-8").splitlines()) == {
        f"{name} {number}": 1 for name in quick for number in range(3)
    }
    second = _begin(house, [f"endless-{number}" for number in range(_ENDLESS)], timedelta(seconds=_SECONDS))
    _wait_for_the_end(house, second)
    assert [_steps(house, night) for night in (first, second)] == [["planned", "open", "closing", "closed"]] * 2
    night = read_night(house, second)
    with house.db.read() as conn:
        left = conn.execute(sa.select(tasks).where(tasks.c.night == second)).mappings().all()
    assert len(left) == _ENDLESS
    # On a slow machine some were not begun.
    assert {(task["state"], task["waiting_for"]) for task in left} <= {("waiting", "time"), ("queued", None)}
    assert night["closed_at"] < night["stops_at"] + timedelta(seconds=30)


def _begin(house: House, names: list[str], lasts: timedelta) -> str:
    """A night by hand for these, which ends when nothing is left to do."""
    with house.db.write() as conn:
        for name in names:
            submit_in(house, conn, Submission("job", {"name": name}), actor="test")
    now = house.clock.now()
    return make_plan(house, Window("2030-01-31", now, now, now + lasts, now + lasts), ["job"], by_hand=True)


def _wait_for_the_end(house: House, night: str) -> None:
    wait_until(lambda: read_night(house, night)["state"] == "closed", 120, f"night {night} is closed")


def _steps(house: House, night: str) -> list[str]:
    query = sa.select(events.c.state, events.c.detail).where(events.c.kind == "night").order_by(events.c.id)
    with house.db.read() as conn:
        return [row.state for row in conn.execute(query) if row.detail["night"] == night]
