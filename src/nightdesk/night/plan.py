"""Choosing what a night does: the most value that fits under all caps at once. Pure: no clock, no database.

Priority comes before everything else: no number of P2 tasks outweighs one P1. Within a priority a task is worth its
urgency divided by its place in its tenant's line, in which the tenant's playbooks take turns. So the tenth task of
one is worth a tenth of the first of another, and what there is too little of is shared in like parts, by what it
costs, however long the lines are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nightdesk.guard.purses import dollars
from nightdesk.night.search import Item, Needs, best, take

Unit = Literal["micros", "minutes", "seconds", "requests", "tokens"]

# Minutes and seconds are counted in thousandths, for sums of whole numbers are exact.
THOUSANDTHS = 1000
# Places in a line by which a value can still be divided and come out different.
_SCALE = 1_000_000


@dataclass(frozen=True, slots=True)
class Cap:
    """Something of which there is only so much. `says` is why a task is left out that does not fit under it."""

    says: str
    unit: Unit
    left: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that could be done. `urgency` counts within its priority; `due` is the second since 1970 at which it must
    have been started, infinite unless that is in this night; `needs` are numbers of caps with how much of them."""

    id: str
    playbook: str
    tenant: str
    priority: int
    urgency: int
    due: float
    needs: Needs


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidates by number, in the order in which they are to be begun, and why the others are left out."""

    chosen: list[int]
    left_out: dict[int, str]


def choose(candidates: Sequence[Candidate], caps: Sequence[Cap]) -> Choice:
    places = fair_places(candidates)
    left = [cap.left for cap in caps]
    chosen = best([_item(number, found, places[number]) for number, found in enumerate(candidates)], left)
    for number in chosen:
        take(left, candidates[number].needs)
    left_out = {
        number: _why_not(found.needs, left, caps) for number, found in enumerate(candidates) if number not in chosen
    }
    return Choice(sorted(chosen, key=lambda number: _turn(candidates[number], places[number])), left_out)


def value(candidate: Candidate, place: int) -> int:
    """What it is worth within its priority, at this place in its tenant's line."""
    return candidate.urgency * _SCALE // place


def fair_places(candidates: Sequence[Candidate]) -> list[int]:
    """The place of each in the line of its tenant and priority, from 1 on. A tenant's playbooks take turns there, each
    with its most urgent task first."""
    flows: defaultdict[tuple[int, str, str], list[int]] = defaultdict(list)
    for number, found in enumerate(candidates):
        flows[found.priority, found.tenant, found.playbook].append(number)
    lines: defaultdict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for (priority, tenant, _), numbers in flows.items():
        numbers.sort(key=lambda number: (-candidates[number].urgency, candidates[number].id))
        lines[priority, tenant] += list(enumerate(numbers))
    places = [0] * len(candidates)
    for line in lines.values():
        line.sort(key=lambda turn: (turn[0], -candidates[turn[1]].urgency, candidates[turn[1]].id))
        for place, (_, number) in enumerate(line, 1):
            places[number] = place
    return places


def written(unit: Unit, amount: int) -> str:
    if unit == "micros":
        return dollars(amount)
    if unit in ("minutes", "seconds"):
        return f"{amount / THOUSANDTHS:,.10g} {unit}"
    return f"{amount:,} {unit}"


def why_too_much(needs: Needs, left: Sequence[int], caps: Sequence[Cap]) -> str:
    """The first of the caps that has too little left, and how much is missing; nothing if there is none."""
    over = ((caps[cap], need - left[cap]) for cap, need in needs if need > left[cap])
    return next((f"{cap.says}: {written(cap.unit, missing)} missing" for cap, missing in over), "")


def _why_not(needs: Needs, left: Sequence[int], caps: Sequence[Cap]) -> str:
    why = why_too_much(needs, left, caps)
    assert why, "what still fits is chosen"
    return why


def _item(number: int, candidate: Candidate, place: int) -> Item:
    return Item(number, candidate.priority, value(candidate, place), candidate.needs)


def _turn(candidate: Candidate, place: int) -> tuple[int, float, int, int, str]:
    """What would expire goes first within its priority; then one of each tenant, and so on."""
    return candidate.priority, candidate.due, place, -candidate.urgency, candidate.id
