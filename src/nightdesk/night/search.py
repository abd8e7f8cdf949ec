"""The search behind a plan: which items to take so that no cap is broken and the value is the highest.

Few items are searched for the best there is, by branch and bound. Many are taken by value for what they use of the caps
that are short, priority by priority, and then the choice is mended: what was left out and is worth more than the
weakest that are in its way takes their place. Either way nothing is left out that would still fit.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

Needs = tuple[tuple[int, int], ...]  # the number of a cap, and how much of it

# Up to so many are searched to the end; up to so many as long as it takes few steps.
EXACT = 18
_CHEAP, _CHEAP_STEPS = 60, 20_000
# How many of those left out a mended choice tries to bring in, and how many of the weakest it looks at for that.
_TRIES, _WEAKEST = 64, 256


class Item(NamedTuple):
    """`tier` 0 comes before everything in tier 1, and so on."""

    number: int
    tier: int
    value: int
    needs: Needs


def best(items: Sequence[Item], left: Sequence[int]) -> set[int]:
    """The numbers of the items to take."""
    able = [item for item in items if fits(left, item.needs)]
    short = _short(able, left)
    restricted = {needs: tuple(need for need in needs if need[0] in short) for needs in {item.needs for item in able}}
    rivals = [Item(*item[:3], needs) for item in able if (needs := restricted[item.needs])]
    free = {item.number for item in able if not restricted[item.needs]}
    return free | {item.number for item in _among(rivals, list(left))}


def fits(left: Sequence[int], needs: Needs) -> bool:
    return all(left[cap] >= need for cap, need in needs)


def take(left: list[int], needs: Needs) -> None:
    for cap, need in needs:
        left[cap] -= need


def _give_back(left: list[int], needs: Needs) -> None:
    for cap, need in needs:
        left[cap] += need


def _short(items: Iterable[Item], left: Sequence[int]) -> set[int]:
    """The caps under which not all of the items fit."""
    wanted: defaultdict[int, int] = defaultdict(int)
    for item in items:
        for cap, need in item.needs:
            wanted[cap] += need
    return {cap for cap, amount in wanted.items() if amount > left[cap]}


def _among(rivals: list[Item], left: list[int]) -> list[Item]:
    found = _greedy(rivals, list(left))
    if len(rivals) <= EXACT:
        return _Search(rivals, left, found).run()
    return _Search(rivals, left, found, _CHEAP_STEPS).run() if len(rivals) <= _CHEAP else found


def _greedy(rivals: Sequence[Item], left: list[int]) -> list[Item]:
    """Tier by tier, each from what the one before has left."""
    tiers = defaultdict(list)
    for item in rivals:
        tiers[item.tier].append(item)
    return [item for tier in sorted(tiers) for item in _fill(tiers[tier], left)]


def _fill(items: list[Item], left: list[int]) -> list[Item]:
    """Of one tier: by value for what it uses or simply by value, whichever brings more; then mended."""
    dense = _by_density(items, left)
    dear = sorted(items, key=lambda item: (-item.value, item.number))
    chosen = max((_taken(order, list(left)) for order in (dense, dear)), key=_worth)
    for item in chosen:
        take(left, item.needs)
    return _mended(dense, chosen, left)


def _by_density(items: Sequence[Item], left: Sequence[int]) -> list[Item]:
    """By value for the share that an item uses of the caps that are short."""
    short = _short(items, left)
    sizes = {
        needs: sum(need / max(left[cap], 1) for cap, need in needs if cap in short)
        for needs in {item.needs for item in items}
    }
    return sorted(items, key=lambda item: (-_ratio(item.value, sizes[item.needs]), item.number))


def _ratio(value: int, size: float) -> float:
    return value / size if size else float("inf")


def _taken(order: Iterable[Item], left: list[int]) -> list[Item]:
    found = []
    for item in order:
        if fits(left, item.needs):
            take(left, item.needs)
            found.append(item)
    return found


def _worth(items: Iterable[Item]) -> int:
    return sum(item.value for item in items)


def _mended(dense: Sequence[Item], chosen: list[Item], left: list[int]) -> list[Item]:
    """Let the dearest that were left out take the place of weaker ones; then take what fits beside them."""
    kept = {item.number: item for item in chosen}
    weak = [item for item in reversed(dense) if item.number in kept][:_WEAKEST]
    for item in nlargest(_TRIES, (item for item in dense if item.number not in kept), key=lambda item: item.value):
        losers = _in_its_way(item, [other for other in weak if other.number in kept], left)
        if losers:
            for loser in losers:
                _give_back(left, kept.pop(loser.number).needs)
            take(left, item.needs)
            kept[item.number] = item
    rest = _taken((item for item in dense if item.number not in kept), left)
    return [*kept.values(), *rest]


def _in_its_way(item: Item, weak: Iterable[Item], left: Sequence[int]) -> list[Item]:
    """Some of the weak that leave it enough room and are worth less together; none if there are none such."""
    missing = {cap: need - left[cap] for cap, need in item.needs if need > left[cap]}
    losers: list[Item] = []
    lost = 0
    for other in weak:
        if not missing:
            break
        helps = any(cap in missing for cap, _ in other.needs)
        if helps and lost + other.value < item.value:
            losers.append(other)
            lost += other.value
            freed = dict(other.needs)
            missing = {cap: short - freed.get(cap, 0) for cap, short in missing.items() if short > freed.get(cap, 0)}
    return [] if missing else losers


class _Search:
    """Branch and bound over the items in one order: first with the next item, then without it."""

    def __init__(self, items: Sequence[Item], left: list[int], known: list[Item], steps: int | None = None) -> None:
        self._items = sorted(items, key=lambda item: (item.tier, -item.value, item.number))
        self._values = _across_tiers(self._items)
        self._left = left
        self._rest = _suffix_sums(self._values)
        self._caps = [_Bound(cap, self._items, self._values) for cap in sorted(_short(items, left))]
        self._steps = steps
        worths = {item.number: worth for item, worth in zip(self._items, self._values, strict=True)}
        self._best = known
        self._most = sum(worths[item.number] for item in known)

    def run(self) -> list[Item]:
        self._look(0, 0, [])
        return self._best

    def _look(self, depth: int, worth: int, taken: list[Item]) -> None:
        if worth > self._most:
            self._most, self._best = worth, list(taken)
        if depth == len(self._items) or self._is_hopeless(depth, worth):
            return
        item = self._items[depth]
        if fits(self._left, item.needs):
            take(self._left, item.needs)
            self._look(depth + 1, worth + self._values[depth], [*taken, item])
            _give_back(self._left, item.needs)
        self._look(depth + 1, worth, taken)

    def _is_hopeless(self, depth: int, worth: int) -> bool:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                return True
        missing = self._most - worth
        return self._rest[depth] <= missing or any(bound.at(depth, self._left) <= missing for bound in self._caps)


class _Bound:
    """The most that the items from some depth on can be worth under one cap alone, the last of them taken in part."""

    def __init__(self, cap: int, items: Sequence[Item], values: Sequence[int]) -> None:
        self._cap = cap
        needs = [dict(item.needs).get(cap, 0) for item in items]
        self._others = _suffix_sums([0 if need else value for value, need in zip(values, needs, strict=True)])
        using = [(depth, value, need) for depth, (value, need) in enumerate(zip(values, needs, strict=True)) if need]
        self._using = sorted(using, key=lambda use: Fraction(use[1], use[2]), reverse=True)

    def at(self, depth: int, left: Sequence[int]) -> int:
        room, found = left[self._cap], self._others[depth]
        for place, value, need in self._using:
            if place < depth:
                continue
            if need > room:
                return found + value * room // need + 1
            room -= need
            found += value
        return found


def _across_tiers(items: Sequence[Item]) -> list[int]:
    """One number for each, such that the smallest of a tier outweighs all of the tiers after it together."""
    totals: defaultdict[int, int] = defaultdict(int)
    for item in items:
        totals[item.tier] += item.value
    weights, weight = {}, 1
    for tier in sorted(totals, reverse=True):
        weights[tier] = weight
        weight *= totals[tier] + 1
    return [item.value * weights[item.tier] for item in items]


def _suffix_sums(values: Sequence[int]) -> list[int]:
    return [0, *accumulate(reversed(values))][::-1]
