"""Code that asks for something else in a replay: it is on record, and a person decides where the playbook says so."""

from typing import Any

import pytest

from nightdesk.guard.switches import clear_switch, set_switch
from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.model.dying import Killed, say, settle_through_deaths

_FIRST = ["A", "B", "C"]
_LATER = {"another": ["A", "B, it is one o'clock", "C"], "fewer": ["A", "C"], "one": ["A"], "none": []}


@pytest.mark.parametrize("later", _LATER)
@pytest.mark.parametrize("handled", ["keep", "person"])
def test_a_replay_that_asks_for_something_else_is_on_record(asking: AskingHouse, later: str, handled: str) -> None:
    legs: list[int] = []

    async def body(order: Any, desk: Desk) -> Any:
        legs.append(1)
        for text in _FIRST if len(legs) == 1 else _LATER[later]:
            await say(desk, text)
        if len(legs) == 1:
            raise Killed

    asking.have(body, lane="live", on_code_change=handled)
    task_id = asking.submit("job", {"name": "a"}).id
    assert settle_through_deaths(asking) == 1
    unasked = [call.id for call in asking.calls() if call.request["messages"][0]["content"] not in _LATER[later]]
    assert asking.divergences() == [f"answered calls to models were not asked for: {', '.join(sorted(unasked))}"]
    assert asking.state(task_id) == ("done" if handled == "keep" else "review")


def test_code_that_never_asks_the_same_twice_is_on_record_and_ends_at_its_limit_of_turns(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        await say(desk, f"It is {asking.clock.now()}.")
        await say(desk, "And now?")

    asking.set(waves={"canary": False})
    task = asking.ask(body, lane="batch", limits={"turns": 4})
    assert (task["state"], len(asking.calls()), len(asking.divergences())) == ("dead", 4, 3)
    assert asking.meter()["executions"] == 4


def test_a_leg_that_rests_before_it_came_to_a_call_has_not_diverged(asking: AskingHouse) -> None:
    legs: list[int] = []

    async def body(order: Any, desk: Desk) -> Any:
        legs.append(1)
        if len(legs) == 2:
            set_switch(asking.house.db, asking.clock, mode="stop", why="to look", actor="test")
            asking.switchboard.refresh()
        await desk.step("look", str.upper, "x")
        return [await say(desk, text) for text in ("A", "B")]

    asking.set(waves={"canary": False})
    asking.have(body, lane="batch", on_code_change="person")
    task_id = asking.submit("job", {"name": "a"}).id
    asking.settle()
    assert (len(legs), asking.state(task_id)) == (2, "waiting:switch")
    clear_switch(asking.house.db, asking.clock, why="looked", actor="test")
    asking.settle()
    assert (asking.state(task_id), asking.divergences()) == ("done", [])
    assert asking.meter()["executions"] == 2
