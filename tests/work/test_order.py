"""Who runs next: priorities, fairness between flows, limits of concurrency, debounce."""

import asyncio
import dataclasses
from typing import Any

import pytest

from nightdesk.errors import Conflict
from nightdesk.settings import LimitSettings
from nightdesk.work import Desk
from nightdesk.work.tasks import cancel
from tests.support.hand import Hand


def names(hand: Hand) -> list[str]:
    """The keys of the queued tasks, in the order in which they will run."""
    return [hand.task(task_id)["key"] for task_id, _ in hand.due()]


def test_a_p0_overtakes_a_full_queue(hand: Hand) -> None:
    for number in range(20):
        hand.submit("drill", {"name": f"p3-{number}"}, priority="P3")
    hand.submit("drill", {"name": "urgent"}, priority="P0")
    hand.submit("drill", {"name": "soon"}, priority=1)
    assert names(hand)[:3] == ["urgent", "soon", "p3-0"]


def test_one_tenants_many_tasks_do_not_starve_anothers_one(hand: Hand) -> None:
    for number in range(30):
        hand.submit("drill", {"name": f"big-{number}"}, tenant="big")
    for _ in range(5):
        hand.step()
    hand.submit("drill", {"name": "small-0"}, tenant="small")
    hand.submit("drill", {"name": "small-1"}, tenant="small")
    assert names(hand)[:4] == ["big-5", "big-6", "small-0", "big-7"]


def test_a_playbooks_many_tasks_do_not_starve_anothers_one(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> None:
        return None

    hand.have(body)
    for number in range(10):
        hand.submit("drill", {"name": f"many-{number}"})
    hand.submit("job", {"name": "other"})
    assert "other" in names(hand)[:3]


def test_a_delayed_task_does_not_hold_a_place_in_the_line(hand: Hand) -> None:
    later = hand.clock.now().replace(year=2027)
    hand.submit("drill", {"name": "next year"}, tenant="a", not_before=later)
    for number in range(5):
        hand.submit("drill", {"name": f"b-{number}"}, tenant="b")
    hand.step()
    hand.submit("drill", {"name": "c"}, tenant="c")
    assert names(hand) == ["b-1", "b-2", "c", "b-3", "b-4"] or names(hand)[2] == "c"


def run_together(hand: Hand, count: int) -> None:
    """Start the first legs of the queue at once, in one worker."""
    hand.run_together(hand.due()[:count])


class Busy:
    """A playbook's body that counts how many of it run at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def __call__(self, order: Any, desk: Desk) -> None:
        await desk.step("work", self.work)

    async def work(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.05)
        self.now -= 1


def test_a_playbooks_limit_holds_and_everyone_gets_a_turn(hand: Hand) -> None:
    busy = Busy()
    hand.have(busy, limits={"concurrency": 2})
    ids = [hand.submit("job", {"name": str(number)}).id for number in range(7)]
    run_together(hand, 7)
    states = sorted(hand.state(task) for task in ids)
    assert states == ["done"] * 2 + ["waiting:turn"] * 5
    for _ in range(6):
        run_together(hand, 7)
        hand.sweep()
    assert ({hand.state(task) for task in ids}, busy.most) == ({"done"}, 2)


def test_a_tenants_limit_is_across_playbooks_and_leaves_others_alone(hand: Hand) -> None:
    busy = Busy()
    hand.have(busy)
    limits = LimitSettings(tenants={"small": 1})
    hand.house = dataclasses.replace(hand.house, settings=hand.house.settings.model_copy(update={"limits": limits}))
    mine = [hand.submit("job", {"name": str(number)}, tenant="small").id for number in range(3)]
    others = [hand.submit("job", {"name": str(number)}, tenant="other").id for number in range(3)]
    run_together(hand, 6)
    assert [hand.state(task) for task in others] == ["done"] * 3
    assert sorted(hand.state(task) for task in mine) == ["done", "waiting:turn", "waiting:turn"]


def test_a_place_freed_without_a_leg_ending_is_filled_by_the_sweeper(hand: Hand) -> None:
    async def cancelled(order: Any, desk: Desk) -> None:
        if order.name == "0":
            await desk.step("long", cancel_itself, desk.task_id)

    async def cancel_itself(task_id: str) -> None:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(cancel, hand.house, task_id, actor="me")

    hand.have(cancelled, limits={"concurrency": 1})
    ids = [hand.submit("job", {"name": str(number)}).id for number in range(2)]
    run_together(hand, 2)
    assert [hand.state(task) for task in ids] == ["cancelled", "waiting:turn"]
    assert hand.due() == []
    hand.sweep()
    hand.run_all()
    assert hand.state(ids[1]) == "done"


def test_a_debounced_task_takes_the_latest_input_and_waits_anew(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> str:
        return str(order.text)

    hand.have(body, input={"name": "string", "text": "string"}, when={"debounce": "90s"})
    task = hand.submit("job", {"name": "a", "text": "first"}).id
    assert hand.submit("job", {"name": "a", "text": "second"}).id == task
    assert len(hand.due()) == 2  # the first leg is still in the queue, but no longer the task's
    hand.run(task, 1)
    assert hand.state(task) == "queued"
    hand.run(task, 2)
    assert (hand.state(task), hand.task(task)["result"]) == ("done", "second")
    with pytest.raises(Conflict):
        hand.submit("job", {"name": "a", "text": "third"})
