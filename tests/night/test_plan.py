"""The pure planner: as good as brute force where that can be had, within all caps and fair where it cannot."""

import math
import random
import time
from collections import Counter
from collections.abc import Sequence

from hypothesis import example, given, settings, strategies as st

from nightdesk.night.candidates import LEAST, MOST
from nightdesk.night.plan import Candidate, Cap, choose, fair_places
from nightdesk.night.search import EXACT
from tests.night.plans import best_worth, breaks_no_cap, instances, is_whole, leaves_no_room, used, worth


def task(
    name: str, *needs: int, priority: int = 2, urgency: int = 10, of: str = "a", due: float = math.inf
) -> Candidate:
    numbered = tuple((cap, need) for cap, need in enumerate(needs) if need)
    return Candidate(name, "job", of, priority, urgency, due, numbered)


def money(*left: int) -> list[Cap]:
    return [Cap(f"purse {number} has too little left", "micros", amount) for number, amount in enumerate(left)]


def names(candidates: Sequence[Candidate], chosen: Sequence[int]) -> list[str]:
    return [candidates[number].id for number in chosen]


@given(instances(most=11))
@settings(max_examples=200, deadline=None)
def test_a_small_plan_is_the_best_there_is(instance: tuple[list[Candidate], list[Cap]]) -> None:
    candidates, caps = instance
    choice = choose(candidates, caps)
    assert worth(candidates, choice.chosen) == best_worth(candidates, caps)
    assert breaks_no_cap(candidates, caps, choice.chosen)


@given(instances(most=300))
@settings(max_examples=60, deadline=None)
def test_no_plan_breaks_a_cap_forgets_a_task_or_leaves_room(instance: tuple[list[Candidate], list[Cap]]) -> None:
    candidates, caps = instance
    choice = choose(candidates, caps)
    assert breaks_no_cap(candidates, caps, choice.chosen)
    assert is_whole(candidates, choice)
    assert leaves_no_room(candidates, caps, choice)


def test_what_is_searched_to_the_end_is_the_best_there_is_up_to_the_limit() -> None:
    """One knapsack, so that the best can be computed in another way."""
    rng = random.Random(4)
    assert EXACT == 18
    for _ in range(20):
        candidates = [task(f"{n:02}", rng.randint(1, 40), urgency=rng.randint(10, 70), of=f"{n}") for n in range(18)]
        caps = money(rng.randint(40, 300))
        assert worth(candidates, choose(candidates, caps).chosen)[2] == _knapsack(candidates, caps[0].left)


def _knapsack(candidates: Sequence[Candidate], room: int) -> int:
    """By dynamic programming over the room. Every tenant has one task, so that its value does not depend on others."""
    best = [0] * (room + 1)
    for candidate in candidates:
        need, gain = candidate.needs[0][1], worth([candidate], [0])[2]
        for left in range(room, need - 1, -1):
            best[left] = max(best[left], best[left - need] + gain)
    return best[room]


def test_a_large_plan_is_nearly_the_best_there_is() -> None:
    rng = random.Random(5)
    for _ in range(5):
        candidates = [task(f"{n:04}", rng.randint(1, 60), urgency=rng.randint(10, 70), of=f"{n}") for n in range(400)]
        caps = money(3000)
        assert worth(candidates, choose(candidates, caps).chosen)[2] >= 0.99 * _knapsack(candidates, caps[0].left)


def test_a_mended_plan_makes_way_for_what_is_worth_more() -> None:
    """By value for money the hundred small ones come first, and then there is no room for the one that is worth all."""
    small = [task(f"small-{n:03}", 10, urgency=10, of=f"small-{n}") for n in range(100)]
    large = task("large", 1000, urgency=70 * 100, of="large")
    candidates = [*small, large]
    assert names(candidates, choose(candidates, money(1005)).chosen) == ["large"]


def test_priority_comes_before_any_number_of_others() -> None:
    candidates = [task("p1", 100, priority=1), *(task(f"p2-{n}", 1, urgency=70, of=f"{n}") for n in range(100))]
    assert names(candidates, choose(candidates, money(100)).chosen) == ["p1"]


def test_a_thousand_tasks_of_one_tenant_do_not_starve_anothers_one() -> None:
    many = [task(f"many-{n:05}", 1, urgency=70, of="big") for n in range(10_000)]
    candidates = [*many, task("one", 1, of="small")]
    chosen = names(candidates, choose(candidates, money(50)).chosen)
    assert len(chosen) == 50
    assert "one" in chosen


def test_a_tenants_playbooks_take_turns() -> None:
    many = [Candidate(f"many-{n}", "many", "main", 2, 10, math.inf, ((0, 1),)) for n in range(100)]
    few = [Candidate(f"few-{n}", "few", "main", 2, 10, math.inf, ((0, 1),)) for n in range(3)]
    candidates = [*many, *few]
    chosen = names(candidates, choose(candidates, money(10)).chosen)
    assert Counter(name.partition("-")[0] for name in chosen) == {"many": 7, "few": 3}
    assert {name.partition("-")[0] for name in chosen[:2]} == {"many", "few"}


@given(st.lists(st.tuples(st.integers(1, 80), st.integers(LEAST, MOST)), min_size=2, max_size=12), st.integers(0, 400))
@settings(max_examples=80, deadline=None)
def test_nobody_gets_more_than_its_urgency_times_what_another_gets_who_goes_without(
    tenants: list[tuple[int, int]], room: int
) -> None:
    """Of tasks that cost alike, to whom some were refused got at least as many as another, but for the seven times
    that the most urgent outweighs the least; and one more, as tasks are whole."""
    candidates = [
        task(f"{tenant}-{n}", 1, urgency=urgency, of=str(tenant))
        for tenant, (count, urgency) in enumerate(tenants)
        for n in range(count)
    ]
    chosen = Counter(candidates[number].tenant for number in choose(candidates, money(room)).chosen)
    assert chosen.total() == min(room, len(candidates))
    for tenant, (count, urgency) in enumerate(tenants):
        if chosen[str(tenant)] < count:
            for other, (_, weight) in enumerate(tenants):
                assert chosen[str(other)] * urgency <= (chosen[str(tenant)] + 1) * weight


def test_scarce_money_is_shared_by_cost_and_not_by_count() -> None:
    """Two tenants, of whom one's tasks cost four times as much: each gets about half of the money."""
    cheap = [task(f"cheap-{n:04}", 1, of="cheap") for n in range(1000)]
    dear = [task(f"dear-{n:04}", 4, of="dear") for n in range(1000)]
    candidates = [*cheap, *dear]
    chosen = choose(candidates, money(400)).chosen
    spent = Counter({"cheap": 0, "dear": 0})
    for number in chosen:
        spent[candidates[number].tenant] += candidates[number].needs[0][1]
    assert spent.total() == 400
    assert abs(spent["cheap"] - spent["dear"]) <= 40


def test_what_expires_is_begun_first_and_then_each_tenant_has_a_turn() -> None:
    candidates = [
        *(task(f"a{n}", 1, of="a") for n in range(3)),
        task("b0", 1, of="b"),
        task("late", 1, of="a", due=200.0),
        task("soon", 1, of="b", due=100.0),
        task("urgent", 1, priority=0, of="c"),
    ]
    order = names(candidates, choose(candidates, money(100)).chosen)
    assert order[:3] == ["urgent", "soon", "late"]
    assert sorted(order[3:5]) == ["a0", "b0"]
    assert order[5:] == ["a1", "a2"]


def test_the_reason_names_the_cap_and_what_is_missing() -> None:
    candidates = [task("fits", 30_000, urgency=70), task("does not", 30_000)]
    choice = choose(candidates, money(45_000))
    assert names(candidates, choice.chosen) == ["fits"]
    assert choice.left_out == {1: "purse 0 has too little left: $0.015 missing"}


def test_minutes_are_counted_in_thousandths() -> None:
    caps = [Cap("the reviewers have too little time", "minutes", 1500)]
    candidates = [task("one", 1000, urgency=70), task("two", 1250)]
    assert choose(candidates, caps).left_out == {1: "the reviewers have too little time: 0.75 minutes missing"}


@given(instances(most=60))
@settings(max_examples=30, deadline=None)
@example(([], []))
def test_the_same_question_has_the_same_answer(instance: tuple[list[Candidate], list[Cap]]) -> None:
    assert choose(*instance) == choose(*instance)


def test_places_are_dense_within_each_tenant_and_priority() -> None:
    rng = random.Random(6)
    candidates = [
        task(f"{n:03}", priority=rng.randint(0, 3), urgency=rng.randint(10, 70), of=rng.choice("abc"))
        for n in range(200)
    ]
    lines: dict[tuple[int, str], list[int]] = {}
    for candidate, place in zip(candidates, fair_places(candidates), strict=True):
        lines.setdefault((candidate.priority, candidate.tenant), []).append(place)
    assert all(sorted(places) == list(range(1, len(places) + 1)) for places in lines.values())


def test_twenty_thousand_are_chosen_among_in_the_time_of_a_sort() -> None:
    """Caps are short in every direction. The bound is generous: on an idle machine it takes a third of a second."""
    rng = random.Random(7)
    kinds = [tuple((cap, rng.randint(1, 20)) for cap in range(8) if rng.random() < 0.7) for _ in range(300)]
    candidates = [
        Candidate(
            f"{n:06}", f"p{n % 20}", f"t{rng.randint(0, 300)}", rng.randint(0, 3), rng.randint(10, 70), math.inf, kind
        )
        for n, kind in enumerate(rng.choices(kinds, k=20_000))
    ]
    caps = [Cap(f"cap {number}", "requests", 20_000 * rng.randint(1, 6)) for number in range(8)]
    began = time.process_time()
    choice = choose(candidates, caps)
    assert time.process_time() - began < 5
    assert is_whole(candidates, choice)
    assert leaves_no_room(candidates, caps, choice)
    assert all(amount <= caps[cap].left for cap, amount in used(candidates, choice.chosen).items())
