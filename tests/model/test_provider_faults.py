"""Whatever a provider does wrong, every call comes to one end, and what was answered once is not paid again."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.guard.breakers import failed, list_breakers
from nightdesk.store import batches, budgets
from nightdesk.work import Desk
from nightdesk.work.insight import history
from tests.model.asking import CLAUDE, GEMINI, GPT, AskingHouse
from tests.model.questions import agent, asks

_MODELS = {"anthropic": CLAUDE, "openai": GPT, "gemini": GEMINI}
_EACH = 2
_COUNT = _EACH * len(_MODELS)

# The fault, what there is to say about it, and how many answers it makes the provider bill a second time.
Case = tuple[str, dict[str, Any], int]

_LIVE: list[Case] = [
    ("status", {"status": 429, "seconds": 3, "times": 2}, 0),
    ("status", {"status": 429, "seconds": 90, "times": 1}, 0),
    ("status", {"status": 500, "times": 2}, 0),
    ("hang", {"seconds": 2.5, "times": 1}, 0),
    # The answer was made and billed, and nothing can bring it back.
    ("cut_off", {"times": 1}, 1),
]
_BATCH: list[Case] = [
    ("create_refused", {"status": 429, "seconds": 20, "times": 2}, 0),
    ("create_refused", {"status": 500, "times": 1}, 0),
    ("create_lost", {"status": 502, "times": 1}, 0),
    ("batch_failed", {"times": 1}, 0),
    ("not_found", {"seconds": 90}, 0),
    ("not_found", {"times": 3}, 0),
    ("poll_refused", {"status": 503, "times": 3}, 0),
    ("counts_zero", {}, 0),
    ("expire", {"times": 1}, 0),
    ("expire", {"share": 0.4, "times": 1}, 0),
    ("fail", {"share": 0.4, "status": 500, "times": 1}, 0),
    ("results_cut", {"times": 1}, 0),
    ("results_broken", {"times": 2}, 0),
    ("results_duplicate", {}, 0),
    ("results_missing", {"times": 1}, 0),
    ("results_unknown", {}, 0),
    ("results_gone", {"times": 3}, 0),
]


def _all(cases: list[Case]) -> pytest.MarkDecorator:
    ids = ["-".join(map(str, (kind, *details.values()))) for kind, details, _ in cases]
    return pytest.mark.parametrize(("kind", "details", "repeated"), cases, ids=ids)


@pytest.fixture
def faulty(asking: AskingHouse, monkeypatch: pytest.MonkeyPatch) -> AskingHouse:
    """Gemini's batches go as files, whose results can go wrong in more ways than those inside an answer."""
    monkeypatch.setattr("nightdesk.model.providers.gemini_batches._INLINE_BYTES", 0)
    asking.set(waves={"canary": False}, model={"timeout_seconds": 1})
    return asking


async def _ask(order: Any, desk: Desk) -> Any:
    """As an agent of the provider that is the first part of the task's name."""
    return await agent("Say NAME.", _MODELS[order.name.partition("-")[0]])(order, desk)


def _check(asking: AskingHouse, lane: str, kind: str, details: dict[str, Any], repeated: int) -> None:
    """Two tasks of each provider, each of which does this wrong: all come to their end, and are paid once."""
    for provider in _MODELS:
        asking.fault(kind, provider=provider, **details)
    asking.have(_ask, lane=lane)
    for number in range(_EACH):
        for provider in _MODELS:
            asking.submit("job", {"name": f"{provider}-{number}"})
    for _ in range(3):
        asking.settle(200)
        asking.pass_time(600)
    assert [task.state for task in asking.tasks()] == ["done"] * _COUNT
    assert [call.status for call in asking.calls()] == ["done"] * _COUNT
    again = repeated * len(_MODELS)
    assert asking.meter() == {**asking.meter(), "executions": _COUNT + again, "repeated": again}
    spent, reserved = _accounts(asking)
    assert reserved == 0
    assert spent == sum(call.cost_usd for call in asking.calls()) >= Decimal(asking.meter()["cost_usd"])
    assert asking.divergences() == []


def _accounts(asking: AskingHouse) -> tuple[Decimal, int]:
    sums = sa.func.sum(budgets.c.spent_micros), sa.func.sum(budgets.c.reserved_micros)
    with asking.house.db.read() as conn:
        spent, reserved = conn.execute(sa.select(*sums).where(budgets.c.scope == "day")).one()
    return Decimal(int(spent)) / 1_000_000, int(reserved)


@_all(_LIVE)
def test_live(faulty: AskingHouse, kind: str, details: dict[str, Any], repeated: int) -> None:
    _check(faulty, "live", kind, details, repeated)


@_all(_BATCH)
def test_in_batches(faulty: AskingHouse, kind: str, details: dict[str, Any], repeated: int) -> None:
    _check(faulty, "batch", kind, details, repeated)


def test_results_that_are_gone_for_good_are_for_a_person_to_decide_on(faulty: AskingHouse) -> None:
    """They were paid for, so nothing is asked again by itself, and what they may have cost is spent."""
    faulty.fault("results_gone")
    faulty.have(_ask, lane="batch")
    for provider in _MODELS:
        faulty.submit("job", {"name": f"{provider}-1"})
    for _ in range(6):
        faulty.settle()
        faulty.pass_time(900)
    assert [(task.state, task.error["class"]) for task in faulty.tasks()] == [("review", "person")] * 3
    assert {"The answer was lost with its batch" in task.error["message"] for task in faulty.tasks()} == {True}
    assert [call.status for call in faulty.calls()] == ["lost"] * 3
    assert faulty.meter() == {**faulty.meter(), "executions": 3, "repeated": 0}
    spent, reserved = _accounts(faulty)
    assert (reserved, spent >= Decimal(faulty.meter()["cost_usd"])) == (0, True)


def test_a_result_that_never_comes_is_asked_for_again(faulty: AskingHouse) -> None:
    """It was looked for three times; whether it was made, nobody says."""
    faulty.fault("results_missing", times=3)
    faulty.have(asks("Say NAME."), lane="batch")
    for name in "abcd":
        faulty.submit("job", {"name": name})
    faulty.settle()
    assert [task.state for task in faulty.tasks()] == ["done"] * 4
    assert sorted(call.attempt for call in faulty.calls()) == [1, 1, 1, 2]
    with faulty.house.db.read() as conn:
        first = conn.execute(sa.select(batches.c.outcome).order_by(batches.c.created_at).limit(1)).scalar_one()
    assert (first["missing"], first["reads"]) == (1, 3)


def _breakers(asking: AskingHouse) -> dict[str, str]:
    return {breaker.lane: breaker.state for breaker in list_breakers(asking.house.db)}


def _waits(asking: AskingHouse) -> set[str]:
    return {asking.state(task.id) for task in asking.tasks()}


def test_a_batch_lane_that_fails_is_tried_with_one_wave_and_then_used_again(faulty: AskingHouse) -> None:
    faulty.fault("create_refused", status=529)
    faulty.have(asks("Say NAME."), lane="batch")
    for name in "abc":
        faulty.submit("job", {"name": name})
    faulty.run_all()
    for _ in range(8):
        faulty.send_waves()
        faulty.pass_time(5)
    faulty.run_all()
    assert (_breakers(faulty), _waits(faulty)) == ({"batch": "open"}, {"waiting:breaker"})
    assert {task.failures for task in faulty.tasks()} == {0}
    faulty.simulator.faults.clear()
    faulty.settle()
    assert faulty.meter()["executions"] == 0
    faulty.pass_time(600)
    faulty.settle()
    assert (_breakers(faulty), _waits(faulty)) == ({"batch": "closed"}, {"done"})
    assert faulty.lanes() == ["batch"] * 3
    assert faulty.meter()["by"] == {"anthropic/batch": 3}


def test_a_trial_wave_that_fails_opens_the_lane_again(faulty: AskingHouse) -> None:
    faulty.fault("create_refused", status=529, times=6)
    faulty.have(asks("Say NAME."), lane="batch")
    faulty.submit("job", {"name": "a"})
    faulty.run_all()
    for _ in range(8):
        faulty.send_waves()
        faulty.pass_time(5)
    faulty.run_all()
    began = faulty.clock.now()
    for _ in range(6):
        faulty.settle()
        faulty.pass_time(300)
    [task] = faulty.tasks()
    assert (faulty.state(task.id), faulty.simulator.faults.shown()) == ("done", [])
    assert task.ended_at - began > timedelta(minutes=19)


def test_a_wave_that_may_not_leave_takes_no_trial(faulty: AskingHouse) -> None:
    faulty.set(limits={"routes": {"anthropic:*": {"queued_tokens": 1}}}, breakers={"errors": 1})
    faulty.have(asks("Say NAME."), lane="batch")
    faulty.submit("job", {"name": "a"})
    faulty.run_all()
    with faulty.house.db.write() as conn:
        at = (conn, faulty.clock.now() - timedelta(minutes=11), "anthropic", "*", "batch")
        failed(faulty.house.db, *at, "it is down", faulty.house.settings.breakers)
    assert (faulty.send_waves(), _breakers(faulty), _waits(faulty)) == (0, {"batch": "open"}, {"waiting:batch"})
    faulty.set(limits={"routes": {}})
    assert (faulty.send_waves(), _breakers(faulty)) == (2, {"batch": "closed"})


def test_a_batch_lane_that_stands_still_does_not_hold_up_who_goes_live(faulty: AskingHouse) -> None:
    faulty.fault("stuck")
    faulty.have(asks("Say NAME."))
    waiting = [faulty.submit("job", {"name": name}).id for name in "ab"]
    faulty.run_all()
    faulty.send_waves()
    faulty.pass_time(12 * 3600)
    faulty.collect()
    urgent = [faulty.submit("job", {"name": name}, priority=1).id for name in "cd"]
    faulty.run_all()
    assert [faulty.state(task_id) for task_id in waiting + urgent] == ["waiting:batch"] * 2 + ["done"] * 2
    assert _breakers(faulty) == {}
    faulty.simulator.faults.clear()
    faulty.settle()
    assert _waits(faulty) == {"done"}


def test_a_key_that_no_worker_has_any_more_gives_the_tasks_back(
    faulty: AskingHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was changed before the wave left: after a while the tasks ask anew, with the new one."""
    faulty.have(asks("Say NAME."), lane="batch")
    faulty.submit("job", {"name": "a"})
    faulty.run_all()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-night-the-new-one")  # pragma: allowlist secret
    faulty.have(asks("Say NAME."), lane="batch")
    faulty.send_waves()
    faulty.pass_time(590)
    assert (faulty.send_waves(), _waits(faulty)) == (1, {"waiting:batch"})
    faulty.pass_time(60)
    faulty.settle()
    assert _waits(faulty) == {"done"}
    assert faulty.meter() == {**faulty.meter(), "executions": 1, "repeated": 0}
    assert "no worker has the key" in " ".join(batch.error or "" for batch in _batches(faulty))


def _batches(asking: AskingHouse) -> list[Any]:
    with asking.house.db.read() as conn:
        return list(conn.execute(sa.select(batches).order_by(batches.c.created_at)))


def test_what_a_fault_came_to_can_be_read_in_the_tasks_history(faulty: AskingHouse) -> None:
    faulty.fault("status", status=500, times=1)
    task = faulty.ask(asks("Say NAME."), lane="live")
    causes = [event["cause"] for event in history(faulty.house, str(task["id"]))]
    assert any(cause.startswith("transient: Error code: 500") for cause in causes)
