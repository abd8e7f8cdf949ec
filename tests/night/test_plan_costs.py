"""What a task is expected to take, and when a plan should be through."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from nightdesk.store import batches
from tests.model.asking import CLAUDE, GPT
from tests.night.keeper import Keeper, utc
from tests.night.plans import change, left_out, made, planned, stored_sums

_LANES: list[tuple[dict[str, Any], dict[str, Any], str | None, str]] = [
    ({}, {}, None, "it states no model"),
    ({"model": CLAUDE}, {}, "batch", "cheapest by estimate: batch $"),
    ({"model": CLAUDE, "lane": "live"}, {}, "live", "the playbook asks for it"),
    ({"model": CLAUDE, "lane": "batch"}, {}, "batch", "the playbook asks for it"),
    ({"model": GPT, "lane": "flex"}, {}, "flex", "the playbook asks for it"),
    ({"model": CLAUDE, "lane": "flex"}, {}, "live", "the playbook asks for flex, but there is none here"),
    ({"model": CLAUDE}, {"priority": "P0"}, "live", "P0 does not wait"),
    ({"model": CLAUDE}, {"priority": "P1"}, "live", "P1 does not wait"),
    ({"model": CLAUDE, "lane": "batch"}, {"priority": "P1"}, "batch", "the playbook asks for it"),
]


@pytest.mark.parametrize(("stated", "task", "lane", "why"), _LANES)
def test_the_lane_is_the_one_that_the_router_would_choose(
    quick_keeper: Keeper, stated: dict[str, Any], task: dict[str, Any], lane: str | None, why: str
) -> None:
    quick_keeper.have(**stated)
    quick_keeper.add("a", **task)
    line = made(quick_keeper)["a"]
    assert line.chosen
    assert line.lane == lane
    assert line.why.startswith(why)


_SHORT = [(CLAUDE, "02:00", "live"), (GPT, "02:00", "flex"), (GPT, "01:10", "live")]


@pytest.mark.parametrize(("model", "stop", "lane"), _SHORT)
def test_in_a_short_window_nothing_waits_for_a_batch(quick_keeper: Keeper, model: str, stop: str, lane: str) -> None:
    """A batch takes an hour and flex a quarter of one; twenty minutes before the stop is last call."""
    quick_keeper.have(model=model)
    quick_keeper.set(night={"stop": stop})
    quick_keeper.add("a")
    assert made(quick_keeper)["a"].lane == lane


def test_a_plan_that_is_made_late_is_for_what_is_left_of_the_window(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE)
    quick_keeper.set(limits={"routes": {"anthropic:*": {"requests_per_minute": 0.05}}})
    quick_keeper.add(*"abcde")
    quick_keeper.look("2026-12-01T04:00:00")
    lines = planned(quick_keeper)
    assert {(line.lane, line.starts_at) for line in lines.values()} == {("live", utc("2026-12-01T04:00:00"))}
    assert len(left_out(lines)) == 2


def test_with_less_than_a_live_answer_takes_nothing_is_begun(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE)
    quick_keeper.add("a", not_before=utc("2026-12-01T04:59:45"))
    assert left_out(made(quick_keeper)) == {
        "a": "too little of the night is left for it: 2026-12-01 04:59 UTC to 2026-12-01 05:00 UTC"
    }


def test_a_task_costs_its_cap_at_worst_and_by_prices_likely(quick_keeper: Keeper) -> None:
    """Haiku at $1 and $5 a million tokens, by batch half of that: 321 tokens in and 500 out are $0.00141."""
    quick_keeper.have(model=CLAUDE, budget={"task": 0.25})
    quick_keeper.have_also("uncapped", model=CLAUDE, limits={"tokens": 1000})
    quick_keeper.add("a")
    quick_keeper.add("b", playbook="uncapped")
    lines = made(quick_keeper)
    assert (lines["a"].worst_micros, lines["a"].likely_micros) == (250_000, 1_411)
    # Live, and with an answer as long as it may be.
    assert lines["b"].worst_micros == 321 + 1000 * 5
    assert lines["b"].likely_micros == 1_411


def test_a_larger_input_costs_more(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE)
    quick_keeper.add("small", "x" * 30_000)
    small, large = sorted(made(quick_keeper).values(), key=lambda line: line.likely_micros)
    # Ten thousand tokens, rounded up by a quarter at most, at half a dollar a million.
    assert 5_000 <= large.likely_micros - small.likely_micros <= 6_250


def test_more_turns_cost_more_and_the_last_of_them_go_live(quick_keeper: Keeper) -> None:
    """With tools six turns are expected, of which the window has time for three by batch."""
    quick_keeper.have(model=CLAUDE, tools=[{"search": {}}])
    quick_keeper.add("a")
    quick_keeper.have_also("once", model=CLAUDE)
    quick_keeper.add("b", playbook="once")
    lines = made(quick_keeper)
    assert lines["a"].lane == "batch"
    assert lines["a"].likely_micros > 6 * lines["b"].likely_micros


def test_what_was_learned_counts_more_than_what_prices_say(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE)
    version = quick_keeper.house.registry.get("job").version
    done = {"state": "done", "ended_at": quick_keeper.clock.now(), "dispatch": 1, "playbook_version": version}
    for number in range(5):
        (task_id,) = quick_keeper.add(f"done-{number}")
        change(quick_keeper, task_id, **done, cost_usd=Decimal(number + 1) / 100)
    quick_keeper.add("a")
    line = made(quick_keeper)["a"]
    assert (line.worst_micros, line.likely_micros) == (50_000, 30_000)


def test_a_model_without_a_price_needs_a_ceiling(quick_keeper: Keeper) -> None:
    quick_keeper.have(model="openai:nobody-knows-it")
    quick_keeper.have_also("bounded", model="openai:nobody-knows-it", budget={"call": 0.02})
    quick_keeper.have_also("elsewhere", model="nowhere:model")
    quick_keeper.add("a")
    quick_keeper.add("b", playbook="bounded")
    quick_keeper.add("c", playbook="elsewhere")
    lines = made(quick_keeper)
    assert (lines["b"].chosen, lines["b"].worst_micros, lines["b"].likely_micros) == (True, 20_000, 20_000)
    assert left_out(lines) == {
        "a": "its model has no known price: state budget.call for nobody-knows-it",
        "c": "its model cannot be asked: There is no provider 'nowhere'.",
    }


def _past_batches(keeper: Keeper, *minutes: float) -> None:
    for number, took in enumerate(minutes):
        ended = keeper.clock.now() - timedelta(hours=number + 1)
        row = {
            "id": f"batch-{number}", "provider": "anthropic", "endpoint": "messages", "model": "*", "base_url": "x",
            "credential": "x", "wave_group": "x", "headers": {}, "status": "ended", "members": 1, "input_tokens": 1,
            "provider_id": f"b-{number}", "created_at": ended, "submitted_at": ended - timedelta(minutes=took),
            "ended_at": ended,
        }  # fmt: skip
        with keeper.house.db.write() as conn:
            conn.execute(batches.insert(), row)


def test_the_odds_are_the_share_of_past_batches_that_would_be_back_in_time(keeper: Keeper) -> None:
    """There are 220 minutes from the start to last call."""
    keeper.have(model=CLAUDE, lane="batch")
    _past_batches(keeper, 30, 60, 90, 120, 150, 230)
    keeper.add("a")
    made(keeper)
    sums = stored_sums(keeper)
    assert sums["odds"] == pytest.approx(5 / 6)
    assert sums["odds_of"] == f"5 of the last 6 batches of {CLAUDE} would be back in time"
    # By the slow end of what was seen, and what a wave waits for company.
    assert sums["finish"] == "2026-12-01T03:30:05Z"


def test_each_turn_is_a_batch_more(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE, lane="batch", tools=[{"search": {}}], limits={"turns": 3})
    _past_batches(quick_keeper, 30, 60, 70, 75)
    quick_keeper.add("a")
    made(quick_keeper)
    assert stored_sums(quick_keeper)["odds"] == 0.75


def test_before_any_batch_was_seen_there_are_no_odds(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE)
    quick_keeper.add("a")
    made(quick_keeper)
    sums = stored_sums(quick_keeper)
    assert (sums["odds"], sums["finish"]) == (None, "2026-12-01T02:00:05Z")
    assert sums["odds_of"] == f"no batch of {CLAUDE} was seen yet; it is taken to need 60 minutes"


def test_a_rate_says_when_live_work_is_through(quick_keeper: Keeper) -> None:
    quick_keeper.have(model=CLAUDE, lane="live")
    quick_keeper.set(limits={"routes": {"anthropic:*": {"requests_per_minute": 0.1}}})
    quick_keeper.add(*"abcdef")
    made(quick_keeper)
    sums = stored_sums(quick_keeper)
    assert (sums["tasks"], sums["finish"], sums["odds"]) == (6, "2026-12-01T02:00:00Z", None)
    assert sums["odds_of"] == "nothing of it waits for a batch"
