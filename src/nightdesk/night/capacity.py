"""What a night has: money left in every purse, time of workers, rates, room in batches, and reviewers' minutes.

Each is a cap, made when a task comes up that uses it. What other nights under way were promised is taken off before
anything is planned. How much is left is as of now: the purses themselves, which nothing can overdraw, have the last
word when the money is spent.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.engine import workers_in
from nightdesk.guard.limits import ANY, MINUTE, Address, limits_for, queue_limits_for
from nightdesk.guard.purses import Key, Purse, Sums, local_day, night_of, purses_for, title
from nightdesk.house import House
from nightdesk.model.estimates import Estimates
from nightdesk.night.costing import Terms
from nightdesk.night.plan import THOUSANDTHS, Cap, Unit
from nightdesk.night.reviewing import minutes_in_a_morning
from nightdesk.night.search import Needs
from nightdesk.playbook import Playbook
from nightdesk.review.minutes import ReviewMinutes
from nightdesk.store import budgets, rate_buckets
from nightdesk.work.begin import limits_of

_Place = tuple[str, str, str, str]  # an Address without the key, of which there is one in nearly every house


class _Amounts(NamedTuple):
    """What one task takes of everything there is."""

    micros: int
    review: int
    work_ms: int
    requests: int
    input_tokens: int
    output_tokens: int
    queued_tokens: int


@dataclass(slots=True)
class _Pot:
    """A cap, and how much of it is promised. `seconds` is how long it takes to use it up, where it is a rate."""

    says: str
    unit: Unit
    total: int
    used: int = 0
    seconds: float = 0.0


class Capacity:
    """For one window."""

    def __init__(self, house: House, conn: sa.Connection, window: Window, estimates: Estimates) -> None:
        self._house, self._conn, self._estimates = house, conn, estimates
        self._seconds = (window.stop - window.start).total_seconds()
        self._days = _days_of(house, window)
        days = {local_day(house.settings, at) for at in self._days}
        self._sums = _read_sums(conn, days, {night_of(house.settings, at) for at in self._days})
        self._learned = _read_learned(conn)
        self.minutes = ReviewMinutes(house, conn)
        self._pots = [self._reviewers(), self._workers()]
        self._numbers: dict[tuple[str, ...], int] = {}
        self._shares: dict[tuple[str, str, tuple[str, str] | None], dict[int, str]] = {}
        self._needs: dict[tuple[object, ...], Needs] = {}

    def needs(self, playbook: Playbook, tenant: str, terms: Terms, worst_micros: int, minutes: float) -> Needs:
        """How much of which caps a task uses, by their numbers. Tasks that are alike share the answer."""
        key = playbook.name, tenant, terms, worst_micros, minutes
        if key not in self._needs:
            shares = self._shares_of(playbook, tenant, terms.route)
            amounts = _amounts(terms, worst_micros, minutes)._asdict()
            self._needs[key] = tuple((pot, amounts[name]) for pot, name in shares.items() if amounts[name])
        return self._needs[key]

    def promise(self, needs: Needs) -> None:
        """So much of it is somebody else's."""
        for pot, amount in needs:
            self._pots[pot].used += amount

    def caps(self) -> list[Cap]:
        return [Cap(pot.says, pot.unit, pot.total - pot.used) for pot in self._pots]

    def seconds_for(self, plan: Iterable[Needs]) -> float:
        """How long the rates take to let all of this pass."""
        used = [0] * len(self._pots)
        for needs in plan:
            for pot, amount in needs:
                used[pot] += amount
        rates = [(pot, amount) for pot, amount in zip(self._pots, used, strict=True) if pot.seconds and amount]
        return max((pot.seconds * amount / pot.total for pot, amount in rates), default=0.0)

    def _shares_of(self, playbook: Playbook, tenant: str, route: tuple[str, str] | None) -> dict[int, str]:
        """The caps that tasks of this playbook and tenant are under, each with the amount that counts there."""
        key = playbook.name, tenant, route
        if key not in self._shares:
            self._shares[key] = {0: "review", 1: "work_ms"}
            self._shares[key] |= dict.fromkeys(self._purses(playbook, tenant), "micros")
            self._shares[key] |= dict.fromkeys(self._places(playbook, tenant), "work_ms")
            if route is not None:
                self._shares[key] |= dict(self._rates(*route, tenant)) | dict(self._queues(*route))
        return self._shares[key]

    def _reviewers(self) -> _Pot:
        """What lies on the desk already is looked at first."""
        count, minutes = self.minutes.on_the_desk()
        beside = f" beside the {count:,} drafts that lie on the desk" if count else ""
        total = math.floor(minutes_in_a_morning(self._house.settings.night) * THOUSANDTHS)
        says = f"the reviewers have too little time{beside}"
        return _Pot(says, "minutes", total, math.ceil(minutes * THOUSANDTHS))

    def _workers(self) -> _Pot:
        """If none is there now, one will be."""
        alive = sum(bool(worker["alive"]) for worker in workers_in(self._house.db, self._conn))
        return self._time("the workers have too little time", self._house.settings.worker.concurrency * max(1, alive))

    def _time(self, says: str, places: int) -> _Pot:
        return _Pot(says, "seconds", math.floor(self._seconds * places * THOUSANDTHS), seconds=self._seconds)

    def _purses(self, playbook: Playbook, tenant: str) -> Iterator[int]:
        """Those of each day that the window lies in, for nobody knows on which a call will be made."""
        asking, settings = playbook.asking, self._house.settings
        for day in self._days:
            for purse in purses_for(
                settings, playbook.name, asking.task_cap, asking.day_cap, tenant, task_id="", at=day, night=True
            ):
                if purse.limit_micros is not None and purse.scope != "task":
                    yield self._number(("money", *purse.key), self._purse(purse, purse.limit_micros))

    def _purse(self, purse: Purse, limit_micros: int) -> _Pot:
        sums = self._sums.get(purse.key, Sums())
        says = f"the budget of {title(*purse.key)} has too little left"
        return _Pot(says, "micros", limit_micros + sums.raised, sums.spent + sums.reserved)

    def _places(self, playbook: Playbook, tenant: str) -> Iterator[int]:
        """The places that this playbook and this tenant may have at once."""
        for column, name, places in limits_of(self._house, playbook.name, tenant):
            says = f"{column.name} {name} may run {places} at once, which takes longer than the window"
            yield self._number(("places", column.name, name), self._time(says, places))

    def _rates(self, provider: str, model: str, tenant: str) -> Iterator[tuple[int, str]]:
        """By the settings, or by what the provider was found to allow, if that is less."""
        for limit in limits_for(self._house.settings, provider, ANY, model, tenant):
            place = _place(*limit.address)
            known = [limit.most / MINUTE] if limit.most is not None else []
            known += [self._learned[place]] if place in self._learned else []
            if known:
                pot = self._rate(limit.address, min(known))
                yield self._number(("rate", *place), pot), limit.address.dimension

    def _rate(self, address: Address, per_second: float) -> _Pot:
        per_minute = f"{per_second * MINUTE:,.10g} {address.dimension.replace('_', ' ')} a minute"
        says = f"{_route(address)} may have {per_minute}, which takes longer than the window"
        unit: Unit = "requests" if address.dimension == "requests" else "tokens"
        return _Pot(says, unit, math.floor(per_second * self._seconds), seconds=self._seconds)

    def _queues(self, provider: str, model: str) -> Iterator[tuple[int, str]]:
        """A batch that is back makes room for the next."""
        rounds = max(1, int(self._seconds // self._estimates.batch_seconds(self._conn, provider, model)))
        for limit in queue_limits_for(self._house.settings, provider, ANY, model, ANY):
            if limit.most is not None:
                says = f"{_route(limit.address)} may have {limit.most:,.10g} tokens queued, too few for the window"
                pot = _Pot(says, "tokens", math.floor(limit.most * rounds))
                yield self._number(("queue", *_place(*limit.address)), pot), "queued_tokens"

    def _number(self, key: tuple[str, ...], pot: _Pot) -> int:
        """The number of the cap of this key; the pot becomes it if there is none yet."""
        if key not in self._numbers:
            self._numbers[key] = len(self._pots)
            self._pots.append(pot)
        return self._numbers[key]


def _amounts(terms: Terms, worst_micros: int, minutes: float) -> _Amounts:
    return _Amounts(
        micros=worst_micros,
        review=math.ceil(minutes * THOUSANDTHS),
        work_ms=terms.work_ms,
        requests=terms.requests,
        input_tokens=terms.input_tokens,
        output_tokens=terms.output_tokens,
        queued_tokens=terms.queued_tokens,
    )


def _days_of(house: House, window: Window) -> list[datetime]:
    """A moment of the window for each date that it has in the house's time zone."""
    zone = ZoneInfo(house.settings.night.zone)
    found = [window.start]
    while True:
        tomorrow = found[-1].astimezone(zone).date() + timedelta(days=1)
        midnight = datetime.combine(tomorrow, time(), zone).astimezone(UTC)
        if midnight >= window.stop:
            return found
        found.append(midnight)


def _read_sums(conn: sa.Connection, days: Iterable[str], nights: Iterable[str]) -> dict[Key, Sums]:
    b = budgets.c
    current = b.day.in_(list(days)) | ((b.scope == "night") & b.name.in_(list(nights)))
    sums = [b[f"{name}_micros"] for name in Sums._fields]
    query = sa.select(b.scope, b.name, b.day, *sums).where(b.scope != "task", current)
    return {(row[0], row[1], row[2]): Sums(*row[3:]) for row in conn.execute(query)}


def _read_learned(conn: sa.Connection) -> dict[_Place, float]:
    """Requests or tokens per second, by the slowest of the keys."""
    b = rate_buckets.c
    place = (b.provider, b.model, b.tenant, b.dimension)
    query = sa.select(*place, sa.func.min(b.per_second)).where(b.learned, b.per_second > 0).group_by(*place)
    return {(row[0], row[1], row[2], row[3]): row[4] for row in conn.execute(query)}


def _place(provider: str, _credential: str, model: str, tenant: str, dimension: str) -> _Place:
    return provider, model, tenant, dimension


def _route(address: Address) -> str:
    """As it is called in the settings."""
    if address.tenant != ANY:
        return f"tenant:{address.tenant}"
    return "*" if address.provider == address.model == ANY else f"{address.provider}:{address.model}"
