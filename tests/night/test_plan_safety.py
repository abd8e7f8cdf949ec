"""A plan is made once and whole, whoever plans and whoever of them dies; and it is made quickly, of however many."""

import hashlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.house import House, open_house
from nightdesk.night.keeping import keep
from nightdesk.store import events, nights, plan_items, tasks
from tests.conftest import make_house_folder
from tests.night import dying
from tests.night.keeper import NOON, utc
from tests.night.plans import CUTOFF, NIGHT
from tests.support.playbooks import write_yaml
from tests.support.processes import wait_until

_PLAYBOOK = """
    name: job
    risk: internal
    input: {name: string}
    key: "{name}"
    model: anthropic:claude-haiku-4-5
    instructions: Write.
    budget: {task: 0.01}
"""
# More than are written in one transaction.
_COUNT, _PAID = 4500, 3000


@pytest.fixture
def folder(house_folder: Path) -> Path:
    return _prepared(house_folder)


def _prepared(home: Path) -> Path:
    """A house in which there is money for some of the tasks."""
    write_yaml(home, _PLAYBOOK, "job")
    settings = home / "nightdesk.toml"
    settings.write_text(f'{settings.read_text()}\n[budget]\nnight = "{_PAID / 100:.2f}"\n', encoding="utf-8")
    return home


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    opened = open_house(folder, clock=SetClock(NOON))
    yield opened
    opened.close()


def _fill(house: House, count: int) -> None:
    """That many tasks of ten tenants, handed in one after the other."""
    rows = [
        {
            "id": hashlib.sha256(str(number).encode()).hexdigest()[:32], "playbook": "job", "key": str(number),
            "tenant": f"tenant-{number % 10}", "playbook_version": "x", "state": "queued", "priority": 2,
            "input": {"name": str(number)}, "created_at": NOON - timedelta(seconds=count - number), "updated_at": NOON,
        }
        for number in range(count)
    ]  # fmt: skip
    for start in range(0, count, 2500):
        with house.db.write() as conn:
            conn.execute(tasks.insert(), rows[start : start + 2500])


def _rows(house: House, query: sa.Select[Any]) -> list[Any]:
    with house.db.read() as conn:
        return list(conn.execute(query))


def _states(house: House) -> dict[str, str]:
    return {row.name: row.state for row in _rows(house, sa.select(nights.c.name, nights.c.state))}


def _is_whole(house: House, count: int = _COUNT, paid: int = _PAID) -> None:
    """Each task has one line; those that are chosen, and only those, are planned, once; and they fill the budget."""
    item, task = plan_items.c, tasks.c
    joined = sa.select(item.task_id, item.position, item.chosen, task.state, task.night).join(tasks)
    lines = _rows(house, joined.where(item.night == NIGHT))
    assert len(lines) == len({line.task_id for line in lines}) == count
    assert sorted(line.position for line in lines) == sorted({line.position for line in lines})
    assert Counter((line.chosen, line.state, line.night) for line in lines) == {
        (True, "planned", NIGHT): paid,
        (False, "queued", None): count - paid,
    }
    moves = _rows(house, sa.select(events.c.task_id).where(events.c.kind == "state", events.c.state == "planned"))
    assert len(moves) == len(set(moves)) == paid
    told = _rows(house, sa.select(events.c.state).where(events.c.kind == "night"))
    assert [row.state for row in told] == ["planned"]
    (night,) = _rows(house, sa.select(nights).where(nights.c.name == NIGHT))
    assert (night.state, night.maker, night.maker_until) == ("planned", None, None)
    assert (night.plan["tasks"], night.plan["left_out"], night.plan["worst_usd"]) == (
        paid, count - paid, f"{paid / 100:.6f}",
    )  # fmt: skip


def _planner(folder: Path, at: datetime, failpoint: str = "") -> Any:
    process = dying.context().Process(target=dying.look, args=(folder, at, failpoint))
    process.start()
    return process


def test_a_planner_that_dies_in_the_middle_is_followed_once_his_time_has_run_out(folder: Path, house: House) -> None:
    _fill(house, _COUNT)
    at = utc(CUTOFF)
    dead = _planner(folder, at, "plan-written-in-part")
    dead.join(60)
    assert dead.exitcode == -signal.SIGKILL
    written = _rows(house, sa.select(sa.func.count()).select_from(plan_items))[0][0]
    assert 0 < written < _COUNT
    for seconds, state in ((59, "planning"), (60, "planned")):
        later = open_house(folder, clock=SetClock(at + timedelta(seconds=seconds)))
        keep(later)
        later.close()
        assert _states(house) == {NIGHT: state}
    _is_whole(house)


def test_processes_that_plan_at_once_make_one_plan(folder: Path, house: House) -> None:
    _fill(house, _COUNT)
    planners = [_planner(folder, utc(CUTOFF)) for _ in range(3)]
    for planner in planners:
        planner.join(60)
    assert [planner.exitcode for planner in planners] == [0, 0, 0]
    _is_whole(house)


def test_a_planner_that_was_taken_for_dead_writes_nothing_more(folder: Path, house: House) -> None:
    _fill(house, _COUNT)
    slow, quick = (open_house(folder, clock=SetClock(utc(CUTOFF) + timedelta(seconds=late))) for late in (0, 60))
    planner = threading.Thread(target=keep, args=(slow,))
    planner.start()
    wait_until(lambda: _states(house) == {NIGHT: "planning"}, 30, "the first has begun")
    keep(quick)
    planner.join()
    _is_whole(house)
    for opened in (slow, quick):
        opened.close()


def test_what_a_dead_planner_had_written_of_a_night_by_hand_stands(tmp_path: Path, sqlite_url: str) -> None:
    """Nobody begins the same one again; and a night's plan finds the tasks of one that nobody opened in time."""
    folder = _prepared(make_house_folder(tmp_path / "house", sqlite_url))
    at = utc("2026-11-30T16:00:00")
    house = open_house(folder, clock=SetClock(utc(CUTOFF)))
    _fill(house, 20)
    dead = dying.context().Process(target=dying.begin, args=(folder, at, "16:30", "plan-written-in-part"))
    dead.start()
    dead.join(60)
    assert dead.exitcode == -signal.SIGKILL
    assert _states(house) == {f"{NIGHT}.1": "planning"}
    keep(house)
    assert _states(house) == {f"{NIGHT}.1": "closed", NIGHT: "planned"}
    found = _rows(
        house, sa.select(tasks.c.state, tasks.c.night, sa.func.count()).group_by(tasks.c.state, tasks.c.night)
    )
    assert [tuple(row) for row in found] == [("planned", NIGHT, 20)]
    house.close()


def test_twenty_thousand_tasks_are_planned_in_proportion(tmp_path: Path, sqlite_url: str) -> None:
    """A fifth of what a house must bear in ten seconds. Measured is what the planner works, not what it waits for."""
    house = open_house(_prepared(make_house_folder(tmp_path / "house", sqlite_url)), clock=SetClock(utc(CUTOFF)))
    _fill(house, 20_000)
    began = time.process_time()
    keep(house)
    assert time.process_time() - began < 10
    _is_whole(house, 20_000)
    house.close()
