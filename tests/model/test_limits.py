"""Rate limits as tasks meet them: ours and the providers', for short waits in memory and for long ones as rows."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.store import rate_buckets
from tests.model.asking import CLAUDE, GEMINI, GPT, START, AskingHouse
from tests.model.questions import agent, asks

SHORT = asks("Say NAME.")
LONG = asks('Count for NAME. sim:{"length": 1000}')


def _limit(asking: AskingHouse, route: str, **most: float) -> None:
    asking.set(limits={"routes": {route: most}}, waves={"canary": False})


def _submit(asking: AskingHouse, names: str, **fields: Any) -> list[str]:
    return [asking.submit("job", {"name": name}, **fields).id for name in names]


def _states(asking: AskingHouse, ids: list[str]) -> list[str]:
    return [asking.state(task) for task in ids]


def _seconds(asking: AskingHouse) -> float:
    return (asking.clock.now() - START).total_seconds()


def _bucket(asking: AskingHouse, dimension: str) -> Any:
    """The one that its provider told of."""
    told = (rate_buckets.c.dimension == dimension) & rate_buckets.c.learned
    with asking.house.db.read() as conn:
        return conn.execute(sa.select(rate_buckets).where(told)).one()


@pytest.mark.parametrize("route", ["anthropic:*", "anthropic:claude-haiku-4-5", "*:claude-haiku-4-5", "*"])
def test_requests_beyond_a_limit_wait_their_turn_as_rows(asking_anywhere: AskingHouse, route: str) -> None:
    asking = asking_anywhere
    _limit(asking, route, requests_per_minute=2)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "abcd")
    asking.run_all()
    assert sorted(_states(asking, ids)) == ["done", "done", "waiting:limit", "waiting:limit"]
    waits = [task.wake_at for task in asking.tasks() if task.state == "waiting"]
    assert sorted(waits) == [START + timedelta(seconds=30), START + timedelta(seconds=60)]
    asking.pass_time(30)
    asking.run_all()
    assert sorted(_states(asking, ids)) == ["done", "done", "done", "waiting:limit"]
    asking.settle()
    assert (_states(asking, ids), asking.meter()["executions"]) == (["done"] * 4, 4)


def test_those_who_wait_come_back_when_it_is_their_turn_and_not_before(asking: AskingHouse) -> None:
    """Or a thousand tasks under a low limit would run a thousand legs for each one that may be sent."""
    _limit(asking, "anthropic:*", requests_per_minute=2)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "abcdefghij")
    for _ in range(9):
        asking.run_all()
        asking.pass_time(30)
    assert _states(asking, ids) == ["done"] * 10
    assert sorted(task.dispatch for task in asking.tasks()) == [1] * 2 + [2] * 8


def test_a_short_wait_is_waited_for(asking: AskingHouse) -> None:
    _limit(asking, "anthropic:*", requests_per_minute=6)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "abcdefgh")
    asking.run_all()
    assert (_states(asking, ids), _seconds(asking)) == (["done"] * 8, 20)


def test_other_routes_and_lanes_are_not_held_up(asking: AskingHouse) -> None:
    _limit(asking, "openai:*", requests_per_minute=1)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "abc")
    asking.run_all()
    assert _states(asking, ids) == ["done"] * 3
    _limit(asking, "anthropic:*", requests_per_minute=1)
    asking.have(SHORT, lane="batch")
    ids = _submit(asking, "def")
    asking.settle()
    assert _states(asking, ids) == ["done"] * 3
    assert sorted(asking.lanes()) == ["batch"] * 3 + ["live"] * 3


def test_a_tenant_has_its_own_share(asking: AskingHouse) -> None:
    _limit(asking, "tenant:acme", requests_per_minute=1)
    asking.have(asks("Say NAME."), lane="live")
    acme, other = _submit(asking, "ab", tenant="acme"), _submit(asking, "ab", tenant="other")
    asking.run_all()
    assert sorted(_states(asking, acme)) == ["done", "waiting:limit"]
    assert _states(asking, other) == ["done", "done"]


def test_output_is_taken_by_its_limit_and_given_back_by_what_came(asking: AskingHouse) -> None:
    _limit(asking, "anthropic:*", output_tokens_per_minute=1200)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "abcdefghij")
    asking.run_all()
    assert (_states(asking, ids), _seconds(asking)) == (["done"] * 10, 0)
    asking.have(LONG, lane="live")
    late = _submit(asking, "mn")
    asking.run_all()
    assert sorted(_states(asking, late)) == ["done", "waiting:limit"]


def test_input_is_limited_too(asking: AskingHouse) -> None:
    text = "word " * 800
    _limit(asking, "anthropic:*", input_tokens_per_minute=1500)
    asking.have(asks(f"{text} NAME"), lane="live")
    ids = _submit(asking, "abc")
    asking.run_all()
    assert sorted(_states(asking, ids)) == ["done", "waiting:limit", "waiting:limit"]
    asking.settle()
    assert _states(asking, ids) == ["done"] * 3


def test_batches_queue_no_more_tokens_than_they_may(asking: AskingHouse) -> None:
    """What has no room joins the wave after."""
    asking.simulator.behaviour.queued_tokens = 3000
    _limit(asking, "openai:gpt-5-mini", queued_tokens=3000)
    asking.have(agent("word " * 800 + "NAME", GPT), lane="batch")
    ids = _submit(asking, "abcdef")
    asking.settle()
    assert _states(asking, ids) == ["done"] * 6
    assert asking.meter() == {**asking.meter(), "executions": 6, "repeated": 0}
    assert len({call.batch_id for call in asking.calls()}) >= 2
    assert {call.attempt for call in asking.calls()} == {1}  # no batch was refused for want of room


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_what_a_provider_tells_of_its_limits_is_kept_to(asking: AskingHouse, model: str) -> None:
    asking.simulator.behaviour.requests_per_second = 0.1
    asking.have(agent("Say NAME.", model), lane="live")
    ids = _submit(asking, "abcde")
    asking.run_all()
    assert _states(asking, ids) == ["done"] * 5
    assert _seconds(asking) == pytest.approx(40, abs=1)
    assert {(call.attempt, call.error) for call in asking.calls()} == {(1, None)}  # not one was refused
    bucket = _bucket(asking, "requests")
    assert (bucket.capacity, bucket.per_second) == (6, 0.1)


@pytest.mark.parametrize("model", [CLAUDE, GPT, GEMINI])
def test_429_is_obeyed_and_costs_no_attempt_of_the_task(asking: AskingHouse, model: str) -> None:
    asking.fault("status", status=429, seconds=5, times=1)
    asking.have(agent("Say NAME.", model), lane="live")
    [first] = _submit(asking, "a")
    asking.run_all()
    assert (asking.state(first), _seconds(asking)) == ("done", 5)
    assert asking.calls()[0].attempt == 2
    asking.fault("status", status=429, seconds=90, times=1)
    second, third = _submit(asking, "bc")
    asking.run_all()
    assert _states(asking, [second, third]) == ["waiting:limit"] * 2
    assert asking.task(second)["wake_at"] == asking.task(third)["wake_at"]
    assert asking.meter()["executions"] == 1
    asking.pass_time(90)
    asking.run_all()
    assert _states(asking, [second, third]) == ["done"] * 2
    assert {task.failures for task in asking.tasks()} == {0}
    assert asking.meter() == {**asking.meter(), "executions": 3, "repeated": 0}


def test_a_provider_that_refuses_again_and_again_is_left_for_a_while(asking: AskingHouse) -> None:
    asking.fault("status", status=429)
    asking.have(SHORT, lane="live")
    [task] = _submit(asking, "a")
    asking.run_all()
    assert asking.state(task) == "waiting:limit"
    assert asking.task(task)["error"] is None
    asking.simulator.faults.clear()
    asking.settle()
    assert asking.state(task) == "done"
