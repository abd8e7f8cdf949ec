"""Making the plan of a night and storing it: who is in it and who is not, and what it says of each."""

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.guard.switches import set_switch
from nightdesk.night.planning import make_plan
from nightdesk.playbook import Registry
from nightdesk.store import budgets, decisions, events, rate_buckets, tasks, trials
from nightdesk.work.insight import history
from tests.model.asking import CLAUDE
from tests.night.keeper import Keeper, utc
from tests.night.plans import NIGHT, change, chosen, left_out, made, planned, stored_sums

_START, _STOP = utc("2026-12-01T01:00:00"), utc("2026-12-01T05:00:00")
_WINDOW = Window(NIGHT, utc("2026-11-30T17:00:00"), _START, _STOP, utc("2026-12-01T07:30:00"))
_PAID: dict[str, Any] = {"model": CLAUDE, "budget": {"task": 0.1}}
_READ: dict[str, Any] = {"risk": "customer", "review": {"minutes": 10}}


def test_the_plan_moves_what_it_chooses_and_says_so(keeper: Keeper) -> None:
    ids = keeper.add("first", "second")
    assert sorted(chosen(made(keeper))) == ["first", "second"]
    for task_id in ids:
        last = history(keeper.house, task_id)[-1]
        assert (last["prior_state"], last["state"], last["version"]) == ("queued", "planned", 1)
        assert last["cause"] == f"it is in the plan of the night of {NIGHT}"
    with keeper.house.db.read() as conn:
        rows = conn.execute(sa.select(tasks.c.state, tasks.c.night, tasks.c.until)).all()
    assert [tuple(row) for row in rows] == [("planned", NIGHT, _STOP)] * 2
    assert keeper.steps() == [(NIGHT, "planned")]


def test_everybody_who_is_left_out_is_told_why(quick_keeper: Keeper) -> None:
    soon = utc("2026-12-01T02:00:00")
    quick_keeper.add("good")
    quick_keeper.add("soon", not_before=soon)
    quick_keeper.add("much later", not_before=_STOP)
    quick_keeper.add("too late", expires_at=utc("2026-12-01T00:30:00"))
    quick_keeper.add("off", tenant="closed")
    set_switch(
        quick_keeper.house.db, quick_keeper.clock, mode="pause", tenant="closed", why="they have not paid", actor="test"
    )
    lines = made(quick_keeper)
    assert chosen(lines) == ["good", "soon"]
    assert (lines["good"].starts_at, lines["soon"].starts_at) == (_START, soon)
    assert left_out(lines) == {
        "much later": "it is for a later night: it must not start before 2026-12-01 05:00 UTC",
        "too late": "it expires before it could be started: at 2026-12-01 00:30 UTC",
        "off": "it is switched off: they have not paid",
    }
    assert [lines[key].state for key in left_out(lines)] == ["queued"] * 3


def test_what_comes_after_the_cutoff_is_for_the_next_night_unless_it_is_urgent(quick_keeper: Keeper) -> None:
    quick_keeper.add("in time")
    quick_keeper.clock.move_to(utc("2026-11-30T17:00:01"))
    quick_keeper.add("late")
    quick_keeper.add("urgent", priority="P1")
    quick_keeper.look("2026-11-30T17:00:02")
    assert chosen(planned(quick_keeper)) == ["urgent", "in time"]
    assert "late" not in planned(quick_keeper)
    quick_keeper.look("2026-12-01T17:00:00")
    assert "late" in planned(quick_keeper, "2026-12-01")


def test_a_plan_is_made_once(keeper: Keeper) -> None:
    keeper.add("a", "b")
    before = made(keeper)
    keeper.add("c", priority="P0")
    keeper.clock.advance(1)
    assert make_plan(keeper.house, _WINDOW, ["job"]) == NIGHT
    assert planned(keeper) == before
    assert keeper.steps() == [(NIGHT, "planned")]


def test_what_waits_since_an_earlier_night_is_planned_where_it_waits(keeper: Keeper) -> None:
    """Whatever it waits for, but for a person: that one goes on once it is answered."""
    for wait in ("time", "budget", "person"):
        (task_id,) = keeper.add(f"for {wait}")
        past = utc("2026-11-30T05:00:00")
        change(keeper, task_id, state="waiting", waiting_for=wait, night="2026-11-29", until=past, dispatch=1)
    lines = made(keeper)
    assert sorted(lines) == ["for budget", "for time"]
    assert {(line.state, line.until) for line in lines.values()} == {("waiting", _STOP)}


def test_the_work_of_a_night_that_is_not_over_is_not_for_the_next(quick_keeper: Keeper) -> None:
    (task_id,) = quick_keeper.add("under way")
    change(
        quick_keeper,
        task_id,
        state="waiting",
        waiting_for="time",
        night="x",
        until=utc("2026-11-30T18:00:00"),
        dispatch=1,
    )
    assert made(quick_keeper) == {}


def test_work_of_a_playbook_that_is_gone_is_left_out(quick_keeper: Keeper) -> None:
    quick_keeper.have_also("other")
    (task_id,) = quick_keeper.add("orphan", playbook="other")
    change(quick_keeper, task_id, night="2026-11-29", until=utc("2026-11-30T05:00:00"))
    left = [playbook for playbook in quick_keeper.house.registry if playbook.name != "other"]
    quick_keeper.house = dataclasses.replace(quick_keeper.house, registry=Registry(left))
    assert left_out(made(quick_keeper)) == {"orphan": "its playbook is gone: restore it, or cancel the task"}


def test_the_sums_are_stored_with_the_night(keeper: Keeper) -> None:
    keeper.have(**_PAID, **_READ)
    keeper.set(night={"reviewer_minutes": {"ana": 15, "ben": 10}})
    keeper.add("a", "b", "c")
    lines = made(keeper)
    sums = stored_sums(keeper)
    assert (sums["tasks"], sums["left_out"], sums["review_minutes"], sums["reviewer_minutes"]) == (2, 1, 20, 25)
    assert sums["worst_usd"] == "0.200000"
    assert 0 < float(sums["likely_usd"]) == sum(lines[key].likely_micros for key in chosen(lines)) / 1e6 < 0.2
    assert list(left_out(lines).values()) == ["the reviewers have too little time: 5 minutes missing"]


def _purse(keeper: Keeper, scope: str, name: str, day: str, **micros: int) -> None:
    row = {"scope": scope, "name": name, "day": day, "updated_at": keeper.clock.now()}
    with keeper.house.db.write() as conn:
        conn.execute(budgets.insert(), row | {f"{column}_micros": amount for column, amount in micros.items()})


_CAPS: Sequence[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"night": "0.30"}, {}, "the budget of the night of 2026-11-30"),
    ({"day": "0.30"}, {}, "the budget of the day 2026-12-01"),
    ({"tenant_day": "0.30"}, {}, "the budget of tenant main for 2026-12-01"),
    ({"tenant": {"main": {"day": "0.30"}}}, {}, "the budget of tenant main for 2026-12-01"),
    ({"playbook_day": "0.30"}, {}, "the budget of playbook job for 2026-12-01"),
    ({}, {"budget": {"task": 0.1, "day": 0.3}}, "the budget of playbook job for 2026-12-01"),
]


@pytest.mark.parametrize(("settings", "stated", "title"), _CAPS)
def test_no_purse_is_planned_beyond_what_is_left_in_it(
    quick_keeper: Keeper, settings: dict[str, Any], stated: dict[str, Any], title: str
) -> None:
    quick_keeper.have(**(_PAID | stated))
    quick_keeper.set(budget=settings)
    quick_keeper.add("a", "b", "c", "d")
    lines = made(quick_keeper)
    assert len(chosen(lines)) == 3
    assert list(left_out(lines).values()) == [f"{title} has too little left: $0.10 missing"]


def test_what_is_spent_reserved_and_raised_counts(keeper: Keeper) -> None:
    keeper.have(**_PAID)
    keeper.set(budget={"night": "0.50"})
    _purse(keeper, "night", NIGHT, "", spent=150_000, reserved=200_000, raised=70_000)
    keeper.add("a", "b", "c")
    lines = made(keeper)
    assert len(chosen(lines)) == 2
    assert list(left_out(lines).values()) == [
        "the budget of the night of 2026-11-30 has too little left: $0.08 missing"
    ]


def test_a_window_over_midnight_is_paid_from_whichever_of_its_days_has_less(quick_keeper: Keeper) -> None:
    quick_keeper.have(**_PAID)
    quick_keeper.set(night={"start": "22:00"}, budget={"day": "0.50"})
    _purse(quick_keeper, "day", "all", NIGHT, spent=300_000)
    quick_keeper.add("a", "b", "c")
    lines = made(quick_keeper)
    assert len(chosen(lines)) == 2
    assert list(left_out(lines).values()) == ["the budget of the day 2026-11-30 has too little left: $0.10 missing"]


def test_a_task_may_use_what_is_left_of_its_own_budget(keeper: Keeper) -> None:
    keeper.have(**_PAID)
    over = utc("2026-11-30T05:00:00")
    for name, spent in (("some left", 40_000), ("nothing left", 100_000)):
        (task_id,) = keeper.add(name)
        change(keeper, task_id, state="waiting", waiting_for="time", night="2026-11-29", until=over, dispatch=1)
        _purse(keeper, "task", task_id, "", spent=spent)
    lines = made(keeper)
    assert lines["some left"].worst_micros == 60_000
    assert left_out(lines)["nothing left"].startswith("its own budget is used up: allow it more with nightdesk budget")


def test_drafts_that_lie_on_the_desk_are_looked_at_first(keeper: Keeper) -> None:
    keeper.have(**_READ)
    keeper.set(night={"reviewer_minutes": 25})
    (drafted,) = keeper.add("drafted")
    change(keeper, drafted, state="review")
    keeper.add("a", "b")
    lines = made(keeper)
    assert len(chosen(lines)) == 1
    why = "the reviewers have too little time beside the 1 drafts that lie on the desk: 5 minutes missing"
    assert list(left_out(lines).values()) == [why]


def test_a_draft_takes_as_long_as_people_were_seen_to_take(quick_keeper: Keeper) -> None:
    """The median of what was decided, once something was; not what the playbook says."""
    quick_keeper.have(**_READ)
    at = quick_keeper.clock.now()
    for number, minutes in enumerate((2, 3, 40)):
        (task_id,) = quick_keeper.add(f"decided-{number}")
        change(quick_keeper, task_id, state="done", ended_at=at)
        decision = {
            "id": task_id, "task_id": task_id, "version": 1, "hash": "x", "verb": "approve", "final": True,
            "actor": "ana", "channel": "web", "assurance": "session", "opened_at": at,
            "decided_at": at + timedelta(minutes=minutes),
        }  # fmt: skip
        with quick_keeper.house.db.write() as conn:
            conn.execute(decisions.insert(), decision)
    quick_keeper.add("new")
    assert made(quick_keeper)["new"].review_minutes == 3


def test_work_that_nobody_reviews_needs_no_minutes(quick_keeper: Keeper) -> None:
    quick_keeper.set(night={"reviewer_minutes": 0})
    quick_keeper.add("internal")
    assert made(quick_keeper)["internal"].review_minutes == 0
    assert chosen(planned(quick_keeper)) == ["internal"]


_RATES: Sequence[tuple[str, dict[str, float], int, str]] = [
    ("anthropic:*", {"requests_per_minute": 0.0125}, 3, "anthropic:* may have 0.0125 requests a minute"),
    (CLAUDE, {"output_tokens_per_minute": 6.3}, 3, f"{CLAUDE} may have 6.3 output tokens a minute"),
    ("tenant:main", {"requests_per_minute": 0.0125}, 3, "tenant:main may have 0.0125 requests a minute"),
    ("*", {"requests_per_minute": 0.0125}, 3, "* may have 0.0125 requests a minute"),
]


@pytest.mark.parametrize(("route", "limit", "fits", "says"), _RATES)
def test_no_more_is_planned_than_the_rates_let_pass_in_the_window(
    quick_keeper: Keeper, route: str, limit: dict[str, float], fits: int, says: str
) -> None:
    """Four hours are 240 minutes; each task makes one request and is expected to be answered with 500 tokens."""
    quick_keeper.have(model=CLAUDE, lane="live")
    quick_keeper.set(limits={"routes": {route: limit}})
    quick_keeper.add(*"abcdef")
    lines = made(quick_keeper)
    assert len(chosen(lines)) == fits
    assert all(why.startswith(f"{says}, which takes longer than the window: ") for why in left_out(lines).values())


def test_a_rate_that_the_provider_was_found_to_have_counts_too(keeper: Keeper) -> None:
    keeper.have(model=CLAUDE, lane="live")
    bucket = {
        "provider": "anthropic", "credential": "key", "model": "claude-haiku-4-5", "tenant": "*",
        "dimension": "requests", "level": 1, "capacity": 1, "per_second": 2 / 14_400, "learned": True, "as_of": 0,
    }  # fmt: skip
    with keeper.house.db.write() as conn:
        conn.execute(rate_buckets.insert(), bucket)
    keeper.add(*"abcd")
    assert len(chosen(made(keeper))) == 2


def test_no_more_is_queued_than_batches_have_room_for(quick_keeper: Keeper) -> None:
    """A batch takes an hour until one was seen, so that there are four of them in the window."""
    quick_keeper.have(model=CLAUDE, lane="batch")
    quick_keeper.set(limits={"routes": {"anthropic:*": {"queued_tokens": 400}}})
    quick_keeper.add(*"abcdefg")
    lines = made(quick_keeper)
    assert {line.lane for line in lines.values()} == {"batch"}
    assert len(chosen(lines)) == 4  # of some 300 tokens each
    says = "anthropic:* may have 400 tokens queued, too few for the window: "
    assert all(why.startswith(says) for why in left_out(lines).values())


def test_what_may_run_only_one_at_a_time_must_fit_into_the_window_one_after_another(quick_keeper: Keeper) -> None:
    """Thirty seconds each, in two minutes."""
    quick_keeper.have(model=CLAUDE, lane="live", limits={"concurrency": 1})
    quick_keeper.set(night={"stop": "01:02"})
    quick_keeper.add(*"abcdef")
    lines = made(quick_keeper)
    assert len(chosen(lines)) == 4
    says = "playbook job may run 1 at once, which takes longer than the window: 30 seconds missing"
    assert set(left_out(lines).values()) == {says}


def test_the_first_of_every_tenant_comes_before_the_second_of_any(quick_keeper: Keeper) -> None:
    quick_keeper.have(**_PAID)
    quick_keeper.set(budget={"night": "0.50"})
    quick_keeper.add(*(f"big-{number:02}" for number in range(30)), tenant="big")
    quick_keeper.add("small", tenant="small")
    lines = made(quick_keeper)
    assert len(chosen(lines)) == 5
    assert "small" in chosen(lines)[:2]


def test_old_work_and_work_with_a_promise_comes_first(quick_keeper: Keeper) -> None:
    quick_keeper.have(**_PAID, sla="20h")
    quick_keeper.have_also("patient", **_PAID)
    quick_keeper.set(budget={"night": "0.20"})
    for name, playbook in (("old", "patient"), ("new", "patient"), ("promised", "job")):
        (task_id,) = quick_keeper.add(name, playbook=playbook)
        if name == "old":
            change(quick_keeper, task_id, created_at=utc("2026-01-20T12:00:00"))
    assert sorted(chosen(made(quick_keeper))) == ["old", "promised"]


def _tested(keeper: Keeper, passed: int, cases: int = 50, version: str = "") -> None:
    playbook = keeper.house.registry.get("job")
    row = {
        "id": f"{passed}-{cases}-{version}", "playbook": "job", "playbook_version": version or playbook.version,
        "at": keeper.clock.now(), "cases": cases, "passed": passed, "cost_usd": Decimal(0), "duration_ms": 1,
        "report": {},
    }  # fmt: skip
    with keeper.house.db.write() as conn:
        conn.execute(trials.insert(), row)


_TRIALS: Sequence[tuple[dict[str, Any], list[tuple[int, int, str]], str]] = [
    ({}, [], "this version of job was never tested; run nightdesk test job"),
    ({}, [(50, 50, "earlier")], "this version of job was never tested; run nightdesk test job"),
    ({}, [(37, 50, "")], "job passed 37 of 50 cases, its bar is 75%"),
    ({}, [(12, 12, "")], "job was tested with 12 cases, its bar is 50"),
    ({}, [(38, 50, "")], ""),
    ({"bar": {"rate": 0.9, "cases": 10}}, [(9, 10, "")], ""),
    ({"bar": {"rate": 0.95, "cases": 10}}, [(9, 10, "")], "job passed 9 of 10 cases, its bar is 95%"),
]


@pytest.mark.parametrize(("bar", "results", "why"), _TRIALS)
def test_a_playbook_is_for_a_night_once_it_has_passed_its_tests(
    quick_keeper: Keeper, bar: dict[str, Any], results: list[tuple[int, int, str]], why: str
) -> None:
    quick_keeper.have(golden="golden.jsonl", risk="customer", **bar)
    for passed, cases, version in results:
        _tested(quick_keeper, passed, cases, version)
    quick_keeper.add("a")
    lines = made(quick_keeper)
    assert left_out(lines) == ({"a": f"its launch test is not passed: {why}"} if why else {})


def test_the_last_test_counts(quick_keeper: Keeper) -> None:
    quick_keeper.have(golden="golden.jsonl", risk="customer")
    _tested(quick_keeper, 50)
    quick_keeper.clock.advance(1)
    _tested(quick_keeper, 10)
    quick_keeper.add("a")
    assert chosen(made(quick_keeper)) == []


def test_what_is_planned_anyway_is_on_record(keeper: Keeper) -> None:
    keeper.have(golden="golden.jsonl", risk="customer")
    keeper.add("a")
    night = make_plan(
        keeper.house, _WINDOW, ["job"], by_hand=True, anyway={"job": "it is a demonstration"}, actor="cli:ana"
    )
    assert night == f"{NIGHT}.1"
    assert chosen(planned(keeper, night)) == ["a"]
    assert stored_sums(keeper, night)["anyway"] == {"job": "it is a demonstration"}
    with keeper.house.db.read() as conn:
        event = conn.execute(sa.select(events).where(events.c.state == "anyway")).one()
    assert (event.kind, event.cause, event.actor) == ("plan", "it is a demonstration", "cli:ana")
    assert event.detail == {"night": night, "playbook": "job"}


def test_nights_side_by_side_share_every_cap(keeper: Keeper) -> None:
    """What the first was promised and has not spent yet is not there for the second."""
    keeper.have(**_PAID, **_READ)
    keeper.set(budget={"night": "0.30"}, night={"reviewer_minutes": 1000})
    keeper.add("a", "b")
    assert make_plan(keeper.house, _WINDOW, ["job"], by_hand=True) == f"{NIGHT}.1"
    keeper.add("c", "d")
    lines = made(keeper)
    assert len(chosen(planned(keeper, f"{NIGHT}.1"))) == 2
    assert len(chosen(lines)) == 1
    assert list(left_out(lines).values()) == [
        "the budget of the night of 2026-11-30 has too little left: $0.10 missing"
    ]


def test_a_playbook_with_hours_of_its_own_is_planned_at_its_own_cutoff(quick_keeper: Keeper) -> None:
    quick_keeper.have_also("early", window={"cutoff": "14:00", "start": "15:00", "stop": "16:00"})
    quick_keeper.add("a")
    quick_keeper.add("b", playbook="early")
    quick_keeper.look("2026-11-30T14:00:00")
    assert quick_keeper.nights() == {f"{NIGHT}.early": "planned"}
    (line,) = planned(quick_keeper, f"{NIGHT}.early").values()
    assert (line.starts_at, line.stops_at, line.key) == (
        utc("2026-11-30T15:00:00"), utc("2026-11-30T16:00:00"), "b",
    )  # fmt: skip
    assert chosen(made(quick_keeper)) == ["a"]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_queued_no_purse_and_no_reviewer_is_overdrawn(quick_keeper: Keeper, seed: int) -> None:
    """Added up from the stored lines, for every purse that there is."""
    rng = random.Random(seed)
    playbooks = {"job": 0.02, "second": 0.05, "third": 0.2}
    for name, cap in playbooks.items():
        stated = {"model": CLAUDE, "budget": {"task": cap}, **_READ, "review": {"minutes": rng.choice([0, 1, 7.5])}}
        quick_keeper.have(**stated) if name == "job" else quick_keeper.have_also(name, **stated)
    caps = {scope: rng.choice([0.3, 1.0, 5.0]) for scope in ("night", "day", "tenant_day", "playbook_day")}
    minutes = rng.choice([20, 100, 1000])
    quick_keeper.set(budget={scope: str(cap) for scope, cap in caps.items()}, night={"reviewer_minutes": minutes})
    for number in range(50):
        fields = {"tenant": rng.choice("abc"), "priority": rng.choice([0, 1, 2, 2, 3])}
        quick_keeper.add(f"{number}", playbook=rng.choice(list(playbooks)), **fields)
    lines = made(quick_keeper)
    assert len(lines) == 50
    spent: Counter[str] = Counter()
    for line in (line for line in lines.values() if line.chosen):
        spent.update(dict.fromkeys(("all", f"of {line.tenant}", line.playbook), line.worst_micros))
    assert spent["all"] <= min(caps["night"], caps["day"]) * 1e6
    assert all(spent[f"of {tenant}"] <= caps["tenant_day"] * 1e6 for tenant in "abc")
    assert all(spent[name] <= caps["playbook_day"] * 1e6 for name in playbooks)
    assert sum(line.review_minutes for line in lines.values() if line.chosen) <= minutes
    assert all(": " in why and why.endswith(" missing") for why in left_out(lines).values())
