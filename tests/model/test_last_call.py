"""Before the night ends what is out is called back: what is finished is kept, the rest goes live while it can."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.model.deadline import last_call
from nightdesk.model.estimates import Estimates
from nightdesk.model.last_call import call_back_due
from nightdesk.settings import NightSettings
from nightdesk.store import batches, events
from nightdesk.work.insight import history
from tests.model.asking import GPT, START, AskingHouse
from tests.model.questions import agent, asks

SHORT = asks("Say NAME.")
_HOUR = 3600.0


@pytest.fixture
def night(asking: AskingHouse) -> AskingHouse:
    """It is half past three; the night ends at five, and last call is at twenty to five. Batches take two hours."""
    _come(asking, 3, 30)
    asking.set(waves={"canary": False})
    asking.simulator.behaviour.batch_seconds = 2 * _HOUR
    return asking


def _come(asking: AskingHouse, hour: float, minute: float = 0) -> None:
    """Let it become this time of the night, unless it is later."""
    asking.clock.move_to(datetime(2026, 12, 1, tzinfo=UTC) + timedelta(hours=hour, minutes=minute))
    asking.simulator.advance(asking.clock.now().timestamp() - asking.simulator.now())


def _begin(asking: AskingHouse, names: str, body: Any = SHORT, *, send: bool = True, **stated: Any) -> list[str]:
    """Tasks of the night; capital letters are urgent."""
    asking.have(body, when="night", **stated)
    ids = [asking.submit("job", {"name": name}, priority=2 if name.isupper() else 3).id for name in names]
    asking.dispatch(*ids)
    asking.run_all()
    if send:
        asking.send_waves()
    return ids


def _call_back(asking: AskingHouse) -> int:
    return call_back_due(asking.room, asking._wake)


def _after_last_call(asking: AskingHouse) -> None:
    assert _call_back(asking) > 0
    for _ in range(4):
        asking.collect()
        asking.run_all()
        asking.pass_time(30)
        assert _call_back(asking) == 0


def _come_again(asking: AskingHouse, ids: list[str]) -> None:
    """The next night begins, and goes on with what waits for it."""
    _come(asking, 25)
    asking.run_all()
    left = [task_id for task_id in ids if asking.state(task_id) != "done"]
    assert set(_states(asking, left)) == {"waiting:time"}
    asking.dispatch(*left)
    asking.settle()


def _states(asking: AskingHouse, ids: list[str]) -> list[str]:
    return [asking.state(task_id) for task_id in ids]


def _last_calls(asking: AskingHouse) -> list[Any]:
    with asking.house.db.read() as conn:
        return [row.detail for row in conn.execute(sa.select(events).where(events.c.kind == "last_call"))]


def test_what_is_finished_is_kept_and_the_rest_goes_live_the_most_urgent_first(night: AskingHouse) -> None:
    ids = _begin(night, "abCDefGHij")
    assert {call.status for call in night.calls()} == {"sent"}
    _come(night, 4, 39)
    assert _call_back(night) == 0
    _come(night, 4, 40)
    _after_last_call(night)
    assert _states(night, ids) == ["done"] * 10
    lanes = night.lanes()
    assert 4 <= lanes.count("batch") <= 7
    assert lanes.count("live") == 10 - lanes.count("batch")
    assert night.meter() == {**night.meter(), "executions": 10, "repeated": 0}
    late = sorted((call for call in night.calls() if call.lane == "live"), key=lambda call: call.sent_at)
    assert [call.priority for call in late] == sorted(call.priority for call in late)
    why = "it came back from a batch unanswered (it was cancelled with its batch); cheapest by estimate: live $0.0"
    assert {call.lane_reason[: len(why)] for call in late} == {why}
    assert _last_calls(night) == [{"deadline": "2026-12-01T05:00:00+00:00", "called_back": 1}]


def test_where_there_is_flex_the_rest_goes_there(night: AskingHouse) -> None:
    ids = _begin(night, "abcd", agent("Say NAME.", GPT))
    _come(night, 4, 40)
    _after_last_call(night)
    assert _states(night, ids) == ["done"] * 4
    assert set(night.lanes()) == {"batch", "flex"}


def test_waves_that_have_not_left_are_dissolved(night: AskingHouse) -> None:
    ids = _begin(night, "abc", send=False)
    _come(night, 4, 40)
    with night.house.db.read() as conn:
        assert not conn.execute(sa.select(batches)).all()
    _after_last_call(night)
    assert (_states(night, ids), set(night.lanes())) == (["done"] * 3, {"live"})
    assert "last call: it was called back from the batch lane" in night.calls()[0].lane_reason
    assert night.meter() == {**night.meter(), "executions": 3, "repeated": 0}


def test_as_many_go_live_as_the_money_allows_and_the_others_say_what_they_wait_for(night: AskingHouse) -> None:
    night.set(budget={"night": "0.0140"})
    long = asks('Count for NAME. sim:{"length": 1000}')  # by batch a quarter of a cent each, live half a cent
    night.simulator.behaviour.batch_seconds = 100 * _HOUR
    ids = _begin(night, "abCDe", long)
    assert {call.status for call in night.calls()} == {"sent"}
    _come(night, 4, 40)
    _after_last_call(night)
    done = [task_id for task_id in ids if night.state(task_id) == "done"]
    assert {night.task(task_id)["priority"] for task_id in done} >= {"P2"}
    assert [night.state(ids[place]) for place in (2, 3)] == ["done", "done"]
    assert sorted({night.state(task_id) for task_id in ids}) == ["done", "waiting:budget"]
    waiting = next(task_id for task_id in ids if night.state(task_id) == "waiting:budget")
    assert night.task(waiting)["wake_at"] == "2026-12-01T05:00:00Z"
    assert "The budget of the night of 2026-11-30 is $0.014" in history(night.house, waiting)[-1]["cause"]
    night.simulator.behaviour.batch_seconds = 10
    _come_again(night, ids)
    assert _states(night, ids) == ["done"] * 5
    assert [call.lane for call in night.calls(waiting)] == ["batch"]


@pytest.mark.parametrize("have_left", [True, False], ids=["out", "gathering"])
@pytest.mark.parametrize(
    "limit", [{"requests_per_minute": 0.1}, {"input_tokens_per_minute": 8.6}], ids=["requests", "tokens"]
)
def test_last_call_comes_as_early_as_the_rate_limits_ask_for(
    asking: AskingHouse, limit: dict[str, float], have_left: bool
) -> None:
    """A question every ten minutes: ten of them take two hours. Called back, they join no other batch tonight."""
    asking.set(waves={"canary": False}, limits={"routes": {"anthropic:*": limit}})
    asking.simulator.behaviour.batch_seconds = 100 * _HOUR
    _come(asking, 1)
    ids = _begin(asking, "abcdefghij", send=have_left)
    assert asking.calls()[0].input_estimate == 86
    _come(asking, 2, 54)
    assert _call_back(asking) == 0
    _come(asking, 2, 56)
    _after_last_call(asking)
    assert not {call.status for call in asking.calls()} & {"wanted", "sent"}
    assert set(_states(asking, ids)) <= {"done", "waiting:limit"}


def test_what_cannot_be_done_in_time_waits_for_the_next_night_and_says_so(night: AskingHouse) -> None:
    """At one in two minutes, eight take sixteen; but the provider takes eighteen to cancel."""
    night.set(waves={"canary": False}, limits={"routes": {"anthropic:*": {"requests_per_minute": 0.5}}})
    night.simulator.behaviour.batch_seconds = 100 * _HOUR
    night.simulator.behaviour.cancel_seconds = 18 * 60
    ids = _begin(night, "abCdefgh")
    for minute in range(35, 76):
        _come(night, 4, minute)
        _call_back(night)
        night.collect()
        night.run_all()
    states = _states(night, ids)
    assert (states[2], states.count("done"), states.count("waiting:time")) == ("done", 3, 5)
    late = ids[states.index("waiting:time")]
    assert night.task(late)["wake_at"] is None
    assert history(night.house, late)[-1]["cause"] == "the night is over; it waits for the next"
    _come(night, 24, 30)
    night.run_all()
    assert night.state(late) == "waiting:time"
    night.set(limits={"routes": {}})
    night.simulator.behaviour.batch_seconds = 10
    _come_again(night, ids)
    assert _states(night, ids) == ["done"] * 8
    assert night.calls(late)[0].lane == "batch"
    assert night.meter() == {**night.meter(), "executions": 8, "repeated": 0}


def test_what_is_cancelled_only_after_the_end_of_the_night_waits_for_the_next(night: AskingHouse) -> None:
    night.simulator.behaviour.cancel_seconds = 30 * 60
    night.simulator.behaviour.batch_seconds = 100 * _HOUR
    ids = _begin(night, "ab")
    _come(night, 4, 40)
    assert _call_back(night) == 1
    for minute in (41, 59, 69, 72):
        _come(night, 4, minute)
        night.collect()
        night.run_all()
    assert _states(night, ids) == ["waiting:time"] * 2
    assert {task.wake_at for task in night.tasks()} == {None}
    night.simulator.behaviour.batch_seconds = 10
    _come_again(night, ids)
    assert (_states(night, ids), set(night.lanes())) == (["done"] * 2, {"batch"})


def test_work_that_is_not_the_nights_own_joins_the_next_batch(night: AskingHouse) -> None:
    night.have(SHORT, lane="batch")
    other = night.submit("job", {"name": "z"}).id
    night.simulator.behaviour.batch_seconds = 100 * _HOUR
    ids = _begin(night, "a", lane="batch")
    _come(night, 4, 40)
    _after_last_call(night)
    assert (night.state(ids[0]), night.state(other)) == ("done", "waiting:batch")
    assert [call.status for call in night.calls(other)] == ["wanted"]


@pytest.mark.parametrize(("minutes", "lane"), [(None, "live"), (10, "batch"), (90, "live")])
def test_how_long_batches_take_is_learned_and_moves_the_decision(
    asking: AskingHouse, minutes: float | None, lane: str
) -> None:
    """At twenty past four a batch of an hour is too late, one of ten minutes is not."""
    asking.set(waves={"canary": False})
    if minutes is not None:
        asking.fault("not_found", times=1)  # such a moment is no reason not to learn from it
        asking.simulator.behaviour.batch_seconds = minutes * 60
        asking.have(SHORT, lane="batch")
        asking.submit("job", {"name": "earlier"})
        asking.run_all()
        asking.send_waves()
        for _ in range(int(minutes) + 2):
            asking.pass_time(60)
            asking.collect()
        asking.run_all()
    asking.simulator.behaviour.batch_seconds = 10
    _come(asking, 4, 20)
    asking.have(SHORT, when="night")
    task_id = asking.submit("job", {"name": "late"}).id
    asking.dispatch(task_id)
    asking.settle()
    assert asking.state(task_id) == "done"
    assert [call.lane for call in asking.calls(task_id)] == [lane]


def test_the_estimate_is_the_slow_end_of_the_last_batches_and_what_was_called_back_does_not_count(
    asking_anywhere: AskingHouse,
) -> None:
    asking = asking_anywhere
    seconds = [600 + 60 * number for number in range(10)]
    with asking.house.db.write() as conn:
        conn.execute(batches.insert(), [_ended(f"{took}", took, None) for took in seconds])
        conn.execute(batches.insert(), [_ended("late", 30, "last call"), _ended("of another", 30, None, "gpt-5-mini")])
    estimates = Estimates(asking.house.settings.model, asking.clock)
    with asking.house.db.read() as conn:
        assert estimates.batch_seconds(conn, "anthropic", "any") == sorted(seconds)[8]
        assert estimates.batch_seconds(conn, "google", "any") == 3600


def _ended(name: str, seconds: float, error: str | None, model: str = "*") -> dict[str, Any]:
    return {
        "id": name, "provider": "anthropic", "endpoint": "messages", "model": model, "base_url": "u", "credential": "c",
        "wave_group": "g", "headers": {}, "status": "ended", "members": 1, "input_tokens": 1, "created_at": START,
        "submitted_at": START, "ended_at": START + timedelta(seconds=seconds), "error": error,
    }  # fmt: skip


def test_last_call_leaves_time_to_cancel_and_to_ask_the_rest() -> None:
    stop = datetime(2026, 12, 1, 5, tzinfo=UTC)
    assert stop - last_call(NightSettings(last_call_minutes=0), stop) == timedelta(minutes=5)
    assert stop - last_call(NightSettings(last_call_minutes=20), stop, 600) == timedelta(minutes=20)
    assert stop - last_call(NightSettings(last_call_minutes=20), stop, 3600) == timedelta(minutes=5 + 72)
