"""Instances for the planner, and how its choices are judged: by adding up, not by its own searching. And stored plans,
as they lie in the tables."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

from nightdesk.night.plan import Candidate, Cap, Choice, fair_places, value
from nightdesk.night.search import Needs
from nightdesk.store import plan_items, tasks
from tests.night.keeper import Keeper

CAPS = 4
Worth = tuple[int, ...]


def worth(candidates: Sequence[Candidate], chosen: Sequence[int]) -> Worth:
    """By priority: more of a higher one is better, whatever there is of a lower one."""
    places = fair_places(candidates)
    found = [0] * 4
    for number in chosen:
        found[candidates[number].priority] += value(candidates[number], places[number])
    return tuple(found)


def used(candidates: Sequence[Candidate], chosen: Sequence[int]) -> Counter[int]:
    total: Counter[int] = Counter()
    for number in chosen:
        for cap, need in candidates[number].needs:
            total[cap] += need
    return total


def breaks_no_cap(candidates: Sequence[Candidate], caps: Sequence[Cap], chosen: Sequence[int]) -> bool:
    return all(amount <= caps[cap].left for cap, amount in used(candidates, chosen).items())


def best_worth(candidates: Sequence[Candidate], caps: Sequence[Cap]) -> Worth:
    """By trying everything: each task is taken or not."""
    places = fair_places(candidates)

    def best_from(number: int, left: tuple[int, ...]) -> Worth:
        if number == len(candidates):
            return (0, 0, 0, 0)
        found = candidates[number]
        without = best_from(number + 1, left)
        needs = dict(found.needs)
        rest = tuple(room - needs.get(cap, 0) for cap, room in enumerate(left))
        if any(rest[cap] < 0 for cap in needs):
            return without
        gain = value(found, places[number])
        beside = best_from(number + 1, rest)
        return max(without, tuple(w + gain * (priority == found.priority) for priority, w in enumerate(beside)))

    return best_from(0, tuple(cap.left for cap in caps))


def is_whole(candidates: Sequence[Candidate], choice: Choice) -> bool:
    """Every candidate is either chosen, once, or left out with a reason."""
    return sorted([*choice.chosen, *choice.left_out]) == list(range(len(candidates))) and all(choice.left_out.values())


def leaves_no_room(candidates: Sequence[Candidate], caps: Sequence[Cap], choice: Choice) -> bool:
    """Nothing that is left out would still fit."""
    taken = used(candidates, choice.chosen)
    return all(
        any(taken[cap] + need > caps[cap].left for cap, need in candidates[number].needs) for number in choice.left_out
    )


@st.composite
def instances(draw: st.DrawFn, most: int) -> tuple[list[Candidate], list[Cap]]:
    """Up to so many tasks. Each cap has room for a share of what they need; some have none, or less than none."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    priorities = rng.choice([(2,), (2,), (2, 3), (0, 1, 2, 3)])
    tenants = [f"tenant-{number}" for number in range(rng.choice([1, 3, 40]))]
    needs = rng.choice([_any_needs, _needs_like_values])
    candidates = [
        Candidate(
            id=f"task-{number:03}",
            playbook=rng.choice("ab"),
            tenant=rng.choice(tenants),
            priority=rng.choice(priorities),
            urgency=urgency,
            due=rng.choice([math.inf, math.inf, 1.0, 2.0]),
            needs=needs(rng, urgency),
        )
        for number, urgency in enumerate(rng.choices(range(10, 71), k=rng.randint(most // 2, most)))
    ]
    wanted = used(candidates, range(len(candidates)))
    shares = [rng.uniform(-0.02, 0.9) for _ in range(CAPS)]
    return candidates, [Cap(f"cap {cap}", "requests", round(share * wanted[cap])) for cap, share in enumerate(shares)]


def _any_needs(rng: random.Random, _urgency: int) -> Needs:
    return tuple((cap, rng.randint(1, 50)) for cap in range(CAPS) if rng.random() < 0.6)


def _needs_like_values(rng: random.Random, urgency: int) -> Needs:
    """Of one cap, and as much as it is worth: then it is hard to tell what to take."""
    return ((0, urgency + rng.randint(-2, 2)),)


# The night whose plan is made when the clock shows CUTOFF.
NIGHT, CUTOFF = "2026-11-30", "2026-11-30T17:00:00"


def planned(keeper: Keeper, night: str = NIGHT) -> dict[str, Any]:
    """The lines of the stored plan in their order, by the keys of the tasks."""
    item, task = plan_items.c, tasks.c
    columns = (task.key, task.playbook, task.tenant, task.state, task.until)
    query = sa.select(plan_items, *columns).join(tasks, task.id == item.task_id)
    with keeper.house.db.read() as conn:
        rows = conn.execute(query.where(item.night == night).order_by(item.position)).all()
    return {row.key: row for row in rows}


def made(keeper: Keeper, night: str = NIGHT) -> dict[str, Any]:
    """The same, made now that it is the cut-off."""
    keeper.look(CUTOFF)
    return planned(keeper, night)


def chosen(lines: dict[str, Any]) -> list[str]:
    return [key for key, line in lines.items() if line.chosen]


def left_out(lines: dict[str, Any]) -> dict[str, str]:
    return {key: line.why for key, line in lines.items() if not line.chosen}


def change(keeper: Keeper, task_id: str, **columns: Any) -> None:
    """Write columns of a task as if its life so far had come to that."""
    with keeper.house.db.write() as conn:
        conn.execute(tasks.update().where(tasks.c.id == task_id), columns)


def stored_sums(keeper: Keeper, night: str = NIGHT) -> dict[str, Any]:
    plan: dict[str, Any] = keeper.night(night)["plan"]
    return plan
