"""Which lane a call takes, and that it says why: by what is asked for, by the clock, and by what it costs."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from nightdesk.work import Desk
from tests.model.asking import CLAUDE, GEMINI, GPT, START, AskingHouse
from tests.model.dying import Killed, say
from tests.model.questions import agent, asks
from tests.support.processes import wait_until


def test_what_is_urgent_goes_live_and_what_can_wait_goes_by_batch(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False})
    asking.have(asks("Say NAME."))
    for priority in range(4):
        asking.submit("job", {"name": f"p{priority}"}, priority=priority)
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    lanes = {call.priority: (call.lane, call.lane_reason.partition(":")[0]) for call in asking.calls()}
    live = {priority: ("live", f"P{priority} does not wait") for priority in (0, 1)}
    assert lanes == live | dict.fromkeys((2, 3), ("batch", "cheapest by estimate"))
    assert asking.meter()["by"] == {"anthropic/batch": 2, "anthropic/live": 2}


@pytest.mark.parametrize(
    ("model", "lane"), [(CLAUDE, "live"), (CLAUDE, "batch"), (CLAUDE, "flex"), (GPT, "flex"), (GEMINI, "flex")]
)
def test_a_playbook_may_name_its_lane(asking: AskingHouse, model: str, lane: str) -> None:
    asking.set(waves={"canary": False})
    task = asking.ask(agent("Say NAME.", model), lane=lane)
    [call] = asking.calls()
    there_is_none = lane == "flex" and model == CLAUDE
    reason = "the playbook asks for flex, but there is none here" if there_is_none else "the playbook asks for it"
    assert (task["state"], call.status, call.lane_reason) == ("done", "done", reason)
    assert call.lane == ("live" if there_is_none else lane)
    assert list(asking.meter()["by"]) == [f"{_metered(model)}/{call.lane}"]
    assert (call.saved_usd > 0) == (call.lane != "live")


def _metered(model: str) -> str:
    return model.partition(":")[0].replace("google", "gemini")


@pytest.mark.parametrize(
    ("model", "fault", "status"),
    [(GPT, "no_flex", 429), (GEMINI, "no_flex", 429), (GPT, "status", 400), (GEMINI, "status", 503)],
)
def test_a_call_that_flex_does_not_take_is_answered_live(
    asking: AskingHouse, model: str, fault: str, status: int
) -> None:
    asking.fault(fault, status=status, times=1)
    task = asking.ask(agent("Say NAME.", model), lane="flex")
    [call] = asking.calls()
    assert (task["state"], call.lane, call.attempt) == ("done", "live", 2)
    assert call.lane_reason == f"the playbook asks for flex, but the flex lane answered HTTP {status}"
    assert asking.meter()["by"] == {f"{_metered(model)}/live": 1}
    assert [event for event in asking.tasks() if event.failures] == []


_TOOLS = [{"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}]
_LONG = "All that is known of it. " * 2_000


def _marked(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize(
    ("minutes", "tools", "shared", "own", "lane"),
    [
        (0, False, "", "", "batch"),
        (0, True, "", "", "batch"),
        (0, True, _LONG, "", "live"),
        (0, False, _LONG, "", "live"),
        (0, False, "", _LONG, "batch"),
        (5, False, _LONG, "", "batch"),
    ],
    ids=["short", "a short loop", "a long loop", "long", "a prefix of its own", "too late for the cache"],
)
def test_a_long_prefix_goes_where_the_cache_is_warm(
    asking: AskingHouse, minutes: float, tools: bool, shared: str, own: str, lane: str
) -> None:
    """One of the same shape has just gone ahead live."""

    async def body(order: Any, desk: Desk) -> Any:
        more: Any = {"tools": _TOOLS} if tools else {}
        system = _marked(shared + order.name + own) if own else _marked(shared or "Be short.")
        return await asks('Say NAME. sim:{"turns": 0}', system=system, **more)(order, desk)

    asking.have(body)
    first, second = (asking.submit("job", {"name": name}).id for name in "ab")
    asking.step()
    asking.pass_time(minutes * 60)
    asking.settle()
    [ahead], [call] = asking.calls(first), asking.calls(second)
    assert (ahead.status, ahead.lane, call.status, call.lane) == ("done", "live", "done", lane)
    assert call.lane_reason.startswith("cheapest by estimate: batch $0.0")


def test_turns_that_follow_each_other_live_find_what_the_one_before_has_left(asking: AskingHouse) -> None:
    """Each begins in its own way, but for a task that has just asked live that is how its last one ended."""

    async def body(order: Any, desk: Desk) -> Any:
        for number in range(3):
            await asks(f"Question {number}", system=_marked(f"{number} {_LONG}"))(order, desk)

    asking.ask(body)
    assert asking.lanes() == ["live"] * 3


def test_turns_are_counted_of_tasks_that_make_no_more(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        for number in range(1 if order.name == "b" else 4):
            await say(desk, f"Question {number} of {order.name}")
        if order.name == "b":
            await desk.ask("Go on?", ["yes"])

    asking.have(body, lane="live")
    for name in "abc":
        asking.submit("job", {"name": name})
    asking.run_all()
    asking.pass_time(31)  # what was looked up is believed for half a minute
    with asking.house.db.read() as conn:
        assert asking.room.estimates.habits(conn, "job").turns == 4
        assert asking.room.estimates.habits(conn, "another").turns is None


def test_how_many_turns_the_tasks_of_a_playbook_take_is_learned(asking: AskingHouse) -> None:
    """A question with a long prefix goes cheapest by batch, until it turns out to be the first of many."""
    asking.set(waves={"canary": False})
    many = asks(*[f"Question {number} of NAME." for number in range(8)], system=_marked(_LONG))
    lanes = []
    for name in "ab":
        task = asking.ask(many, name=name)
        lanes.append([call.lane for call in asking.calls(str(task["id"]))])
        asking.pass_time(3600)
    assert lanes[0][0] == "batch"
    assert lanes[1] == ["live"] * 8


def _nightly(asking: AskingHouse, hours: float, model: str = CLAUDE, **stated: Any) -> str:
    """A task of the night, started so many hours after 22:00. The night ends at 05:00."""
    asking.set(waves={"canary": False})
    asking.have(agent("Say NAME.", model), when="night", **stated)
    task_id = asking.submit("job", {"name": "a"}).id
    asking.pass_time((START + timedelta(hours=hours) - asking.clock.now()).total_seconds())
    asking.dispatch(task_id)
    return task_id


@pytest.mark.parametrize(
    ("hours", "model", "lane", "reason"),
    [
        (5.7, CLAUDE, "batch", "cheapest"),
        (5.9, CLAUDE, "live", "66 min left are too few for a batch of 60 min; "),
        (5.9, GPT, "flex", "66 min left are too few for a batch of 60 min; "),
        (5.9, GEMINI, "flex", "66 min left are too few for a batch of 60 min; "),
        (6.7, GPT, "flex", "it is last call; "),
        (6.9, GPT, "live", "it is last call; "),
        (6.98, CLAUDE, "live", "it is last call; "),
    ],
)
def test_what_the_clock_allows(asking: AskingHouse, hours: float, model: str, lane: str, reason: str) -> None:
    task_id = _nightly(asking, hours, model)
    asking.settle()
    [call] = asking.calls()
    assert (asking.state(task_id), call.lane) == ("done", lane)
    assert call.lane_reason.startswith(reason)
    assert call.deadline == START + timedelta(hours=7)


def test_with_too_little_of_the_night_left_nothing_is_begun(asking: AskingHouse) -> None:
    task_id = _nightly(asking, 6.995)
    asking.run_all()
    assert (asking.state(task_id), asking.calls()) == ("waiting:time", [])
    assert asking.task(task_id)["wake_at"] is None


def test_what_does_not_belong_to_the_night_has_no_deadline(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False})
    asking.pass_time(6.9 * 3600)
    asking.ask(agent("Say NAME.", CLAUDE), name="by day")
    nightly = _nightly(asking, 6.995)
    asking.have(agent("Say NAME.", CLAUDE))
    urgent = asking.submit("job", {"name": "urgent"}, priority=1).id
    asking.run_all()
    assert (asking.state(nightly), asking.state(urgent)) == ("waiting:time", "done")
    assert [(call.lane, call.deadline) for call in asking.calls()] == [("batch", None), ("live", None)]


def _wave_behind(asking: AskingHouse, first: str) -> dict[str, Any]:
    """Five tasks of one shape: one asks what `first` says, and while it is tried, the others join the wave behind it.
    The answer is each task's state and lane."""
    ask = asks("Say NAME.")

    async def body(order: Any, desk: Desk) -> Any:
        if order.name != first:
            await asyncio.to_thread(wait_until, asking.calls, 20, "a request is under way")
        return await ask(order, desk)

    asking.have(body, lane="batch", limits={"retries": 0})
    ids = {name: asking.submit("job", {"name": name}).id for name in (first, "b", "c", "d", "e")}
    asking.simulator.behaviour.latency = 0.7
    asking.run_together(asking.due())
    asking.simulator.behaviour.latency = 0
    assert [asking.state(ids[name]) for name in "bcde"] == ["waiting:batch"] * 4
    asking.settle()
    asking.pass_time(300)
    asking.settle()
    return {name: (asking.state(task_id), asking.calls(task_id)[0].lane) for name, task_id in ids.items()}


def test_the_first_of_a_new_shape_goes_ahead_and_the_wave_follows(asking: AskingHouse) -> None:
    assert _wave_behind(asking, "a") == {"a": ("done", "live")} | dict.fromkeys("bcde", ("done", "batch"))
    ahead = [call for call in asking.calls() if call.lane == "live"]
    assert [call.lane_reason for call in ahead] == ["the first request of this shape goes ahead of its wave"]
    assert len({call.batch_id for call in asking.calls()}) == 2
    later = asking.ask(asks("Say NAME. It has the same shape."), name="f", lane="batch")
    assert [call.lane for call in asking.calls(str(later["id"]))] == ["batch"]


@pytest.mark.parametrize("status", [400, 500])
def test_a_first_one_that_fails_does_not_take_the_wave_with_it(asking: AskingHouse, status: int) -> None:
    """Refused, it tells of its shape, and the next goes ahead; failed for another reason, it tells nothing."""
    first = f'sim:{{"status":{status}}}'
    found = _wave_behind(asking, first)
    assert found.pop(first) == ("dead", "live")
    assert {state for state, _ in found.values()} == {"done"}
    assert sorted(lane for _, lane in found.values()) == ["batch"] * 3 + ["live" if status == 400 else "batch"]
    assert asking.meter() == {**asking.meter(), "executions": 4, "repeated": 0}


def test_a_wave_does_not_wait_for_ever_for_one_that_died_ahead_of_it(asking: AskingHouse) -> None:
    async def dies(order: Any, desk: Desk) -> Any:
        await asyncio.gather(say(desk, "Say it."), _dead_once_sending(asking))

    asking.simulator.behaviour.latency = 0.5
    asking.have(dies, lane="batch")
    dead = asking.submit("job", {"name": "a"}).id
    with pytest.raises(Killed):
        asking.step()
    asking.forget(dead, 1)
    asking.simulator.behaviour.latency = 0
    asking.have(asks("Say NAME.", most=100), lane="batch")
    behind = asking.submit("job", {"name": "b"}).id
    asking.run_all()
    assert asking.state(behind) == "waiting:batch"
    asking.pass_time(120)
    asking.settle()
    assert asking.state(behind) == "waiting:batch"
    asking.pass_time(180)
    asking.settle()
    assert (asking.state(behind), asking.calls(behind)[0].lane) == ("done", "batch")


async def _dead_once_sending(asking: AskingHouse) -> None:
    await asyncio.to_thread(wait_until, asking.calls, 20, "a request is under way")
    raise Killed
