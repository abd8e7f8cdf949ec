"""Breakers as tasks meet them: a lane that fails is left alone, tasks wait or ask another, and one call tries."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.guard import breakers
from nightdesk.guard.breakers import list_breakers
from nightdesk.store import events
from tests.model.asking import CLAUDE, GEMINI, GPT, AskingHouse
from tests.model.questions import agent, asks

SHORT = asks("Say NAME.")


def _submit(asking: AskingHouse, names: str, **fields: Any) -> list[str]:
    return [asking.submit("job", {"name": name}, **fields).id for name in names]


def _states(asking: AskingHouse, ids: list[str]) -> list[str]:
    return [asking.state(task) for task in ids]


def _breakers(asking: AskingHouse) -> dict[str, str]:
    return {f"{one.provider} {one.model} {one.lane}": one.state for one in list_breakers(asking.house.db)}


def _breaker_events(asking: AskingHouse) -> list[tuple[str, str]]:
    query = sa.select(events.c.prior_state, events.c.state).where(events.c.kind == "breaker").order_by(events.c.id)
    with asking.house.db.read() as conn:
        return [(row.prior_state, row.state) for row in conn.execute(query)]


def _fail_five(asking: AskingHouse, model: str = CLAUDE) -> None:
    """Five tasks whose only try meets a provider that is down."""
    asking.fault("status", status=503, times=5)
    asking.have(agent("Say NAME.", model), lane="live", limits={"retries": 0})
    ids = _submit(asking, "vwxyz")
    asking.run_all()
    assert _states(asking, ids) == ["dead"] * 5


@pytest.mark.parametrize("model", [CLAUDE, GPT, GEMINI])
def test_five_errors_open_it_and_tasks_wait_without_using_up_attempts(asking: AskingHouse, model: str) -> None:
    _fail_five(asking, model)
    provider, _, name = model.partition(":")
    assert _breakers(asking) == {f"{provider} {name} live": "open"}
    ids = _submit(asking, "abc")
    asking.run_all()
    assert _states(asking, ids) == ["waiting:breaker"] * 3
    until = {task.wake_at for task in asking.tasks() if task.state == "waiting"}
    assert until == {asking.clock.now() + timedelta(minutes=10)}
    assert {task.failures for task in asking.tasks() if task.state == "waiting"} == {0}
    asking.pass_time(601)
    asking.settle()
    assert _states(asking, ids) == ["done"] * 3
    assert _breakers(asking) == {f"{provider} {name} live": "closed"}
    assert _breaker_events(asking) == [("closed", "open"), ("open", "trial"), ("trial", "closed")]


def test_one_call_tries_and_if_it_fails_the_rest_wait_for_as_long_again(asking_anywhere: AskingHouse) -> None:
    asking = asking_anywhere
    _fail_five(asking)
    ids = _submit(asking, "abcd")
    asking.run_all()
    asking.pass_time(601)
    asking.fault("status", status=500, times=1)
    asking.run_together(asking.due())
    assert sorted(_states(asking, ids)) == ["dead"] + ["waiting:breaker"] * 3
    assert _breaker_events(asking) == [("closed", "open"), ("open", "trial"), ("trial", "open")]
    assert asking.meter()["executions"] == 0
    asking.pass_time(20)
    asking.run_all()
    assert sorted(_states(asking, ids)) == ["dead"] + ["waiting:breaker"] * 3
    asking.pass_time(581)
    asking.settle()
    assert sorted(_states(asking, ids)) == ["dead"] + ["done"] * 3
    assert asking.meter()["repeated"] == 0


def test_what_waits_for_money_or_its_turn_takes_no_trial(asking: AskingHouse) -> None:
    _fail_five(asking)
    asking.pass_time(601)
    asking.set(budget={"tenant": {"poor": {"day": "0.000001"}}})
    [poor] = _submit(asking, "p", tenant="poor")
    asking.run_all()
    assert (asking.state(poor), list(_breakers(asking).values())) == ("waiting:budget", ["open"])
    [rich] = _submit(asking, "r")
    asking.run_all()
    assert (asking.state(rich), list(_breakers(asking).values())) == ("done", ["closed"])


def test_a_task_that_retries_meets_the_open_breaker_and_keeps_its_attempts(asking: AskingHouse) -> None:
    """Three failures each at most, five together; then they wait for the breaker instead of dying."""
    asking.fault("status", status=529)
    asking.have(SHORT, lane="live")
    ids = _submit(asking, "ab")
    for _ in range(20):
        asking.run_all()
        asking.pass_time(5)
    assert _states(asking, ids) == ["waiting:breaker"] * 2
    assert sum(task.failures for task in asking.tasks()) == 5
    asking.simulator.faults.clear()
    asking.pass_time(600)
    asking.settle()
    assert _states(asking, ids) == ["done", "done"]


def test_slow_answers_open_it(asking: AskingHouse) -> None:
    asking.set(breakers={"slow_seconds": 0.05})
    asking.have(SHORT, lane="live")
    _submit(asking, "abcdefghijklmnopqr")
    asking.run_all()
    assert _breakers(asking) == {}
    asking.simulator.behaviour.latency = 0.2
    _submit(asking, "st")
    asking.run_together(asking.due())
    assert _breakers(asking) == {"anthropic claude-haiku-4-5 live": "open"}
    assert list_breakers(asking.house.db)[0].why == "one answer in twenty took longer than 0 s"


def test_a_trial_that_is_slow_is_lost(asking: AskingHouse) -> None:
    _fail_five(asking)
    asking.set(breakers={"slow_seconds": 0.05})
    asking.simulator.behaviour.latency = 0.2
    asking.pass_time(601)
    [task] = _submit(asking, "a")
    asking.run_all()
    assert (asking.state(task), list(_breakers(asking).values())) == ("done", ["open"])
    assert list_breakers(asking.house.db)[0].why == "the trial took 0 s"


def test_a_trial_that_is_refused_by_rate_has_shown_that_the_provider_answers(asking: AskingHouse) -> None:
    _fail_five(asking)
    asking.pass_time(601)
    asking.fault("status", status=429, seconds=5, times=1)
    [task] = _submit(asking, "a")
    asking.run_all()
    assert (asking.state(task), list(_breakers(asking).values())) == ("done", ["closed"])


@pytest.mark.parametrize("model", [CLAUDE, GPT, GEMINI])
@pytest.mark.parametrize("fault", ["auth", "spend_stop"])
def test_a_refused_key_or_spent_credit_latches_until_a_person_resets_it(
    asking: AskingHouse, model: str, fault: str
) -> None:
    asking.fault(fault, times=1)
    asking.have(agent("Say NAME.", model), lane="live")
    ids = _submit(asking, "abc")
    asking.run_all()
    assert _states(asking, ids) == ["waiting:breaker"] * 3
    provider = model.partition(":")[0]
    assert _breakers(asking) == {f"{provider} * *": "latched"}
    asking.pass_time(86_400)
    asking.settle()
    assert _states(asking, ids) == ["waiting:breaker"] * 3
    assert asking.meter()["executions"] == 0
    breakers.reset(asking.house.db, asking.clock, provider, why="there is a new key", actor="test")
    asking.settle()
    assert _states(asking, ids) == ["done"] * 3
    assert {task.failures for task in asking.tasks()} == {0}


def test_a_403_latches_the_one_model(asking: AskingHouse) -> None:
    asking.fault("status", status=403, times=1)
    asking.have(SHORT, lane="live")
    [task] = _submit(asking, "a")
    asking.run_all()
    assert (asking.state(task), _breakers(asking)) == ("waiting:breaker", {"anthropic claude-haiku-4-5 *": "latched"})
    other = asking.ask(asks("Say NAME.", model="claude-sonnet-4-6"), name="b", lane="live")
    assert other["state"] == "done"


def test_while_it_is_open_the_fallback_of_the_same_provider_is_asked(asking: AskingHouse) -> None:
    _fail_five(asking)
    stated: Any = {"use": CLAUDE, "fallback": "anthropic:claude-sonnet-4-6"}
    task = asking.ask(SHORT, lane="live", model=stated)
    assert task["state"] == "done"
    [call] = asking.calls(task["id"])
    assert (call.asked_model, call.model) == ("claude-haiku-4-5", "claude-sonnet-4-6")
    assert "instead of claude-haiku-4-5, for HTTP 503" in call.lane_reason


def test_while_it_is_latched_an_agent_asks_the_fallback_of_another_provider(asking: AskingHouse) -> None:
    asking.fault("auth", provider="anthropic")
    stated: Any = {"use": CLAUDE, "fallback": GPT}
    tasks = [asking.ask(agent("Say NAME."), name=name, lane="live", model=stated) for name in "ab"]
    assert [task["state"] for task in tasks] == ["done", "done"]
    assert asking.meter()["by"] == {"openai/live": 2}
    assert [call.status for call in asking.calls(tasks[1]["id"])] == ["diverted", "done"]


@pytest.mark.parametrize("stated", [{}, {"model": {"use": CLAUDE, "fallback": GPT}}])
def test_a_plain_client_waits_when_the_fallback_speaks_another_language(
    asking: AskingHouse, stated: dict[str, Any]
) -> None:
    _fail_five(asking)
    asking.have(SHORT, lane="live", **stated)
    [task] = _submit(asking, "a")
    asking.run_all()
    assert asking.state(task) == "waiting:breaker"


def test_a_batch_lane_that_fails_does_not_hold_up_live(asking: AskingHouse) -> None:
    """Tasks that may choose go live; one that is pinned to batches waits, and the next wave is the trial."""
    asking.set(waves={"canary": False})
    asking.fault("create_refused", status=429)
    asking.have(SHORT, lane="batch")
    [pinned] = _submit(asking, "p")
    for _ in range(8):
        asking.run_all()
        asking.send_waves()
        asking.pass_time(10)
    assert _breakers(asking) == {"anthropic * batch": "open"}
    assert asking.state(pinned) == "waiting:breaker"
    asking.have(SHORT)
    free = _submit(asking, "ab")
    asking.run_all()
    assert _states(asking, free) == ["done", "done"]
    assert asking.lanes().count("live") == 2
    assert "the breaker of the batch lane is open" in asking.calls(free[0])[0].lane_reason
    urgent = _submit(asking, "u", priority=0)
    asking.run_all()
    assert _states(asking, urgent) == ["done"]
    asking.have(SHORT, lane="batch")
    asking.simulator.faults.clear()
    asking.pass_time(601)
    asking.settle()
    assert (asking.state(pinned), _breakers(asking)) == ("done", {"anthropic * batch": "closed"})
    assert asking.calls(pinned)[0].lane == "batch"
    assert asking.meter()["repeated"] == 0


def test_a_batch_that_can_never_be_created_is_given_up_and_its_tasks_go_live(asking: AskingHouse) -> None:
    """A 503 may hide a batch that was created, so that each try takes its time, and five do not come in two minutes."""
    asking.set(waves={"canary": False})
    asking.fault("create_refused", status=503)
    asking.have(SHORT)
    ids = _submit(asking, "ab")
    for _ in range(60):
        asking.run_all()
        asking.send_waves()
        asking.pass_time(15)
    assert _states(asking, ids) == ["done", "done"]
    assert set(asking.lanes()) == {"live"}
    assert "it was tried 3 times and is not there" in asking.calls()[0].lane_reason
    assert asking.meter() == {**asking.meter(), "executions": 2, "repeated": 0}
