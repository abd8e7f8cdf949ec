"""Whoever looks after the nights may die at any step, and any number may look at once: the night goes on, once."""

import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from nightdesk.night.keeping import keep
from tests.night import dying
from tests.night.keeper import NOON, Keeper, utc
from tests.support.playbooks import write_yaml

_NIGHT = "2026-11-30"
_AT_ONCE = 6
_PLAYBOOK = """
    name: job
    when: night
    risk: internal
    input: {name: string}
    key: "{name}"
    run: run.py:work
"""
_RUN = """
    async def work(order, desk):
        return await desk.ask("Go on?", ["yes"]) if order.name == "asks" else None
"""


def test_a_process_dies_at_each_step_of_the_night(house_folder: Path) -> None:
    write_yaml(house_folder, _PLAYBOOK, "job", _RUN)
    clock = SetClock(NOON)
    house = open_house(house_folder, clock=clock)
    keeper = Keeper(house, clock)
    ids = keeper.add("asks", "a", "b", "c")
    for failpoint in ("plan-claimed", "plan-written-in-part", "night-planned"):
        _die(house_folder, keeper, "2026-11-30T17:00:00", failpoint)
    keeper.look()
    assert keeper.states(ids) == ["planned"] * 4
    for failpoint in ("night-open", "night-opened", "night-dispatched"):
        _die(house_folder, keeper, "2026-12-01T01:00:00", failpoint)
    assert len(keeper.due()) == 4
    for task_id, leg in keeper.due():
        if task_id in ids[:2]:
            keeper.run(task_id, leg)
    for failpoint in ("night-closing", "night-stopped", "night-sent-home", "night-closed", "night-closed-and-kept"):
        _die(house_folder, keeper, "2026-12-01T05:00:00", failpoint)
    assert keeper.states(ids) == ["waiting:person", "done", "queued", "queued"]
    assert keeper.steps() == [(_NIGHT, state) for state in ("planned", "open", "closing", "closed")]
    keeper.look("2026-12-01T17:00:00")
    assert set(keeper.plan("2026-12-01")) == set(ids[2:])
    house.close()


def _die(home: Path, keeper: Keeper, at: str, failpoint: str) -> None:
    """Another process looks, and is killed at this place. Time goes on a little, so that its lease is over."""
    keeper.clock.move_to(utc(at))
    process = dying.context().Process(target=dying.look, args=(home, keeper.clock.now(), failpoint))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, failpoint
    keeper.clock.advance(61)


@pytest.mark.timeout(120)
def test_processes_that_look_at_once_take_each_step_once(house_folder: Path) -> None:
    write_yaml(house_folder, _PLAYBOOK, "job", _RUN)
    clock = SetClock(NOON)
    houses = [open_house(house_folder, clock=clock) for _ in range(_AT_ONCE)]
    keeper = Keeper(houses[0], clock)
    ids = keeper.add(*(f"job-{number}" for number in range(30)))
    for at in ("2026-11-30T17:00:00", "2026-12-01T01:00:00"):
        clock.move_to(utc(at))
        _together([partial(keep, house) for house in houses])
    due = keeper.due()
    assert sorted(task_id for task_id, _ in due) == sorted(ids)
    clock.advance(60)
    _together([partial(keep, house) for house in houses])
    assert keeper.due() == due
    keeper.run_together(due[:20])
    clock.move_to(utc("2026-12-01T05:00:00"))
    _together([partial(keep, house) for house in houses])
    keeper.look()
    assert keeper.steps() == [(_NIGHT, state) for state in ("planned", "open", "closing", "closed")]
    assert keeper.night(_NIGHT)["closed_at"] - utc("2026-12-01T05:00:00") == timedelta(0)
    figures = keeper.night(_NIGHT)["figures"]
    assert (figures["planned"], figures["done"], figures["waiting"]) == (30, 20, {"not started": 10})
    for house in houses:
        house.close()


def _together(calls: list[Callable[[], None]]) -> None:
    """All at the same moment, each in a thread of its own; what one of them raises is raised here."""
    barrier, failed = threading.Barrier(len(calls)), []

    def run(call: Callable[[], None]) -> None:
        barrier.wait()
        try:
            call()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
