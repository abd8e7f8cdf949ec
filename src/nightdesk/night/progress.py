"""How far a night is: what is done and left of each playbook, its money, its pace, and what stands in its way."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import sqlalchemy as sa

from nightdesk.guard.breakers import list_breakers
from nightdesk.guard.caps import list_budgets
from nightdesk.house import House
from nightdesk.night.figures import money_of
from nightdesk.night.schedule import Night, read_night
from nightdesk.store import tasks

# What has come to an end as far as the night is concerned.
_OUT = ("done", "review", "approved", "releasing", "rejected", "expired", "cancelled", "dead")
_PACE = timedelta(minutes=5)
_t = tasks.c


@dataclass(frozen=True, slots=True)
class Part:
    """One playbook's tasks. `left` is all that is neither done nor on the desk nor ended otherwise."""

    playbook: str
    done: int
    review: int
    dead: int
    working: int
    waiting: int
    left: int


@dataclass(frozen=True, slots=True)
class Progress:
    """`rate` is tasks a minute of late; `expected_at` when it would be through at that rate."""

    night: str
    state: str
    at: datetime
    starts_at: datetime
    stops_at: datetime
    parts: Sequence[Part]
    cost_usd: Decimal
    saved_usd: Decimal
    cap_usd: Decimal | None
    rate: float
    expected_at: datetime | None
    breakers: Sequence[str]

    @property
    def left(self) -> int:
        return sum(part.left for part in self.parts)


def look(house: House, name: str) -> Progress:
    night, now = read_night(house, name), house.clock.now()
    with house.db.read() as conn:
        parts = _parts(conn, night)
        cost, saved = money_of(conn, night)
        rate = _ended_since(conn, night, now - _PACE) / _minutes(night, now)
    left = sum(part.left for part in parts)
    return Progress(
        night=name,
        state=night["state"],
        at=now,
        starts_at=night["starts_at"],
        stops_at=night["stops_at"],
        parts=parts,
        cost_usd=cost,
        saved_usd=saved,
        cap_usd=_cap(house, now),
        rate=rate,
        expected_at=now + timedelta(minutes=left / rate) if rate and left else None,
        breakers=_shut(house),
    )


def _parts(conn: sa.Connection, night: Night) -> list[Part]:
    query = sa.select(_t.playbook, _t.state, sa.func.count()).where(_t.night == night["name"])
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for playbook, state, count in conn.execute(query.group_by(_t.playbook, _t.state)):
        counted[playbook][state] = count
    return [_part(playbook, states) for playbook, states in sorted(counted.items())]


def _part(playbook: str, states: Counter[str]) -> Part:
    kinds = {state: states[state] for state in ("done", "review", "dead", "working", "waiting")}
    return Part(playbook, **kinds, left=states.total() - sum(states[state] for state in _OUT))


def _ended_since(conn: sa.Connection, night: Night, since: datetime) -> int:
    ended = (_t.night == night["name"]) & _t.state.in_(_OUT) & (_t.updated_at >= since)
    return int(conn.execute(sa.select(sa.func.count()).select_from(tasks).where(ended)).scalar_one())


def _minutes(night: Night, now: datetime) -> float:
    """The time over which the pace is measured: a night that has just begun has no five minutes yet."""
    open_for = now - (night["opened_at"] or now)
    return max(1.0, min(_PACE, open_for).total_seconds()) / 60


def _cap(house: House, now: datetime) -> Decimal | None:
    """What may be spent in the night, with what the cap was raised by."""
    found = [budget for budget in list_budgets(house.db, house.settings, now) if budget.scope == "night"]
    if not found or found[0].limit_micros is None:
        return None
    return Decimal(found[0].limit_micros + found[0].raised_micros) / 1_000_000


def _shut(house: House) -> list[str]:
    return [
        f"{breaker.provider} {breaker.model} {breaker.lane}: {breaker.state}"
        for breaker in list_breakers(house.db)
        if breaker.state != "closed"
    ]
