"""Keeping and dropping: a plan is changed until its window opens, and never beyond a cap."""

from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import Conflict, Invalid, NotFound
from nightdesk.guard.caps import raise_cap
from nightdesk.guard.purses import purse_of
from nightdesk.night.changing import drop, keep
from nightdesk.store import events
from nightdesk.work.insight import history
from nightdesk.work.tasks import cancel
from tests.model.asking import CLAUDE
from tests.night.keeper import Keeper, utc
from tests.night.plans import CUTOFF, NIGHT, change, chosen, left_out, made, planned, stored_sums

_PAID: dict[str, Any] = {"model": CLAUDE, "budget": {"task": 0.1}}


def _two_of_three(keeper: Keeper) -> tuple[str, str, str]:
    """A plan in which there is money for two of three tasks: the ids of those two, and of the third."""
    keeper.have(**_PAID)
    keeper.set(budget={"night": "0.25"})
    ids = dict(zip("abc", keeper.add("a", "b", "c"), strict=True))
    lines = made(keeper)
    first, second = chosen(lines)
    (third,) = left_out(lines)
    return ids[first], ids[second], ids[third]


def _refusal(keeper: Keeper, task_id: str, **more: Any) -> str:
    with pytest.raises(Conflict) as refused:
        keep(keeper.house, task_id, actor="cli:ana", **more)
    return refused.value.problem


def test_one_is_kept_once_another_was_dropped(keeper: Keeper) -> None:
    first, _, third = _two_of_three(keeper)
    short = "the budget of the night of 2026-11-30 has too little left: $0.05 missing"
    assert _refusal(keeper, third) == f"Task {third} cannot be kept: {short}."
    assert drop(keeper.house, first, actor="cli:ana") == NIGHT
    assert keep(keeper.house, third, actor="cli:ana") == NIGHT
    assert keeper.states([first, third]) == ["queued", "planned"]
    lines = {line.task_id: line for line in planned(keeper).values()}
    assert (lines[first].chosen, lines[first].why, lines[first].until) == (False, "dropped by cli:ana", None)
    assert (lines[third].chosen, lines[third].why) == (True, "kept by cli:ana")
    assert lines[third].until == utc("2026-12-01T05:00:00")
    assert {line.changed_by for line in lines.values()} == {None, "cli:ana"}
    assert (stored_sums(keeper)["tasks"], stored_sums(keeper)["worst_usd"]) == (2, "0.200000")
    assert _refusal(keeper, first) == f"Task {first} cannot be kept: {short}."


def test_changes_are_on_record(quick_keeper: Keeper) -> None:
    first, _, third = _two_of_three(quick_keeper)
    drop(quick_keeper.house, first, actor="cli:ana")
    keep(quick_keeper.house, third, actor="cli:ben")
    query = sa.select(events.c.task_id, events.c.state, events.c.actor, events.c.detail).where(events.c.kind == "plan")
    with quick_keeper.house.db.read() as conn:
        told = [tuple(row) for row in conn.execute(query.order_by(events.c.id))]
    detail = {"night": NIGHT}
    assert told == [(first, "dropped", "cli:ana", detail), (third, "kept", "cli:ben", detail)]
    last = history(quick_keeper.house, first)[-2]
    assert (last["state"], last["cause"]) == ("queued", f"dropped from the plan of the night of {NIGHT}")


def test_money_that_was_allowed_since_counts(quick_keeper: Keeper) -> None:
    *_, third = _two_of_three(quick_keeper)
    house = quick_keeper.house
    purse = purse_of(house.settings, quick_keeper.clock.now(), "night")
    raise_cap(house.db, quick_keeper.clock, purse, Decimal("0.05"), why="go on", actor="cli:ana")
    keep(house, third, actor="cli:ana")
    assert len(chosen(planned(quick_keeper))) == 3


def test_what_is_so_already_is_left_as_it_is(quick_keeper: Keeper) -> None:
    first, _, third = _two_of_three(quick_keeper)
    before = planned(quick_keeper)
    assert keep(quick_keeper.house, first, actor="cli:ana") == NIGHT
    assert drop(quick_keeper.house, third, actor="cli:ana") == NIGHT
    assert planned(quick_keeper) == before


def test_what_waits_since_an_earlier_night_can_be_dropped_and_kept(quick_keeper: Keeper) -> None:
    (task_id,) = quick_keeper.add("a")
    over = utc("2026-11-30T05:00:00")
    change(quick_keeper, task_id, state="waiting", waiting_for="time", night="2026-11-29", until=over, dispatch=1)
    made(quick_keeper)
    drop(quick_keeper.house, task_id, actor="cli:ana")
    (line,) = planned(quick_keeper).values()
    assert (line.state, line.until, line.chosen) == ("waiting", utc(CUTOFF), False)
    keep(quick_keeper.house, task_id, actor="cli:ana")
    (line,) = planned(quick_keeper).values()
    assert (line.state, line.until, line.chosen) == ("waiting", utc("2026-12-01T05:00:00"), True)


def test_what_was_dropped_is_a_candidate_of_the_next_night(keeper: Keeper) -> None:
    (task_id,) = keeper.add("a")
    made(keeper)
    drop(keeper.house, task_id, actor="cli:ana")
    for at in ("2026-12-01T01:00:00", "2026-12-01T05:00:00", "2026-12-01T17:00:00"):
        keeper.look(at)
    assert chosen(planned(keeper, "2026-12-01")) == ["a"]


def test_nothing_is_changed_once_the_window_is_open(quick_keeper: Keeper) -> None:
    first, _, third = _two_of_three(quick_keeper)
    quick_keeper.look("2026-12-01T01:00:00")
    sentence = "is in no plan that can be changed: its window is open, or is not planned."
    assert _refusal(quick_keeper, third) == f"Task {third} {sentence}"
    with pytest.raises(Conflict, match="is in no plan that can be changed"):
        drop(quick_keeper.house, first, actor="cli:ana")


def test_a_task_that_is_in_no_plan_cannot_be_kept(quick_keeper: Keeper) -> None:
    made(quick_keeper)
    (late,) = quick_keeper.add("late")
    assert "is in no plan that can be changed" in _refusal(quick_keeper, late)
    with pytest.raises(NotFound, match="There is no task nonsense"):
        keep(quick_keeper.house, "nonsense", actor="cli:ana")


def test_a_task_that_was_cancelled_since_cannot_be_kept(quick_keeper: Keeper) -> None:
    *_, third = _two_of_three(quick_keeper)
    cancel(quick_keeper.house, third, actor="cli:ana")
    assert _refusal(quick_keeper, third) == f"Task {third} is cancelled; it cannot be planned."


def test_the_launch_bar_holds_unless_somebody_says_why_not(quick_keeper: Keeper) -> None:
    quick_keeper.have(golden="golden.jsonl", risk="customer")
    (task_id,) = quick_keeper.add("a")
    made(quick_keeper)
    assert "cannot be kept: its launch test is not passed: this version of job" in _refusal(quick_keeper, task_id)
    with pytest.raises(Invalid, match="The reason is empty"):
        keep(quick_keeper.house, task_id, actor="cli:ana", anyway=" ")
    keep(quick_keeper.house, task_id, actor="cli:ana", anyway="a trial run")
    assert chosen(planned(quick_keeper)) == ["a"]
    assert stored_sums(quick_keeper)["anyway"] == {"job": "a trial run"}
    with quick_keeper.house.db.read() as conn:
        event = conn.execute(sa.select(events).where(events.c.state == "anyway")).one()
    assert (event.cause, event.actor, event.detail) == ("a trial run", "cli:ana", {"night": NIGHT, "playbook": "job"})
