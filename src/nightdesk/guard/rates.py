"""Token buckets in SQL: what is wanted is taken, and who has taken ahead of the refill is told how long to wait.

So callers are paced exactly, in the order in which they came, and nobody polls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from nightdesk.guard.limits import (
    MINUTE,
    Address,
    Dimension,
    Limit,
    Want,
    limits_for,
    queue_limits_for,
    wants_of,
)
from nightdesk.guard.turns import numbered, same, take_turn, wanted
from nightdesk.store import Database, rate_buckets

__all__ = [
    "Address",
    "Dimension",
    "Later",
    "Limit",
    "Want",
    "block",
    "correct",
    "give_back",
    "learn",
    "limits_for",
    "queue_down",
    "queue_limits_for",
    "queue_up",
    "take",
    "wants_of",
]

_KEY = Address._fields
# By so much a refill must be faster than thought to be news.
_FASTER = 1.1
_LONGEST_LINE_SECONDS = 3600.0
_b = rate_buckets.c
_PLACE = tuple(_b[name] for name in _KEY)


@dataclass(frozen=True)
class Later:
    """The wait would be longer than the caller has patience for; nothing was taken."""

    seconds: float


@dataclass(frozen=True)
class _Bucket:
    """A row as it is now, refilled. While it is blocked, `as_of` is when that ends."""

    level: float
    capacity: float
    per_second: float
    as_of: float
    learned: bool


def take(
    db: Database, conn: sa.Connection, at: datetime, wants: Sequence[Want], patience_seconds: float = MINUTE
) -> float | Later:
    """Take from all of these buckets. The answer is in how many seconds the caller may send."""
    take_turn(db, conn)
    seconds = _taken(conn, at, wants)
    missing = [want for want in wants if want.capacity is not None and want.address not in seconds]
    if missing:
        _open(db, conn, at, missing)
        seconds |= _taken(conn, at, missing)
    longest = max((wait.seconds for wait in seconds.values()), default=0.0)
    if max((wait.avoidable for wait in seconds.values()), default=0.0) <= patience_seconds:
        return longest
    give_back(db, conn, wants)
    address, wait = max(seconds.items(), key=lambda item: item[1].avoidable)
    return Later(_line_up(conn, at, address, wait))


def _line_up(conn: sa.Connection, at: datetime, address: Address, wait: "_Wait") -> float:
    """Those who are sent away come back one after the other, as the bucket fills, and not all at once, again and
    again. The answer is in how many seconds it is this one's turn."""
    now = at.timestamp()
    soonest = sa.bindparam("soonest", now + wait.avoidable, sa.Double)
    turn = sa.case((_b.promised > soonest, _b.promised), else_=soonest)
    line = rate_buckets.update().where(_is_at(address)).values(promised=turn + wait.refill_seconds)
    promised: float = conn.execute(line.returning(_b.promised)).scalar_one()
    return min(promised - wait.refill_seconds - now, _LONGEST_LINE_SECONDS)


def give_back(db: Database, conn: sa.Connection, wants: Sequence[Want]) -> None:
    """What was taken was not used."""
    correct(db, conn, {want.address: -want.amount for want in wants})


def correct(db: Database, conn: sa.Connection, differences: Mapping[Address, float]) -> None:
    """So much more was used than was taken; less, where the difference is below zero."""
    rows = [{**address._asdict(), "new_amount": more} for address, more in differences.items() if more]
    if rows:
        take_turn(db, conn)
        conn.execute(_correction(len(rows)), numbered(rows))


def learn(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    address: Address,
    limit: float | None,
    remaining: float | None,
    resets_in: float | None,
) -> None:
    """Believe what the provider says of its limit per minute, and of what is left where that is less than thought."""
    if _is_known(_read(conn, at, address), limit, remaining, resets_in):
        return
    take_turn(db, conn)
    bucket = _read(conn, at, address)
    values: dict[str, Any] = {"as_of": bucket.as_of if bucket else at.timestamp()}
    if limit:
        values |= {"capacity": limit, "per_second": _refill(limit, remaining, resets_in), "learned": True}
    level = bucket.level if bucket else limit
    if level is not None:
        values["level"] = level if remaining is None else min(level, remaining)
    if bucket or limit:
        _put(db, conn, address, values, is_new=bucket is None)


def block(db: Database, conn: sa.Connection, at: datetime, address: Address, seconds: float) -> None:
    """Let nothing pass for so long, and then no more than the refill."""
    take_turn(db, conn)
    bucket = _read(conn, at, address)
    wait = max(seconds, bucket.as_of - at.timestamp() if bucket else 0, 0)
    values: dict[str, Any] = {"as_of": at.timestamp() + wait, "blocked_until": at + timedelta(seconds=wait)}
    if bucket:
        values["level"] = min(bucket.level, 0)
    else:  # no rate is known: afterwards all may pass
        values |= {"level": 0, "capacity": 1, "per_second": 0}
    _put(db, conn, address, values, is_new=bucket is None)


def queue_up(db: Database, conn: sa.Connection, at: datetime, limits: Sequence[Limit], tokens: float) -> bool:
    """Count so many tokens as queued under all these limits; False, and under none, if one has too little room."""
    if not limits:
        return True
    take_turn(db, conn)
    buckets = {limit: _read(conn, at, limit.address) for limit in limits}
    queued = {limit: tokens + (bucket.level if bucket else 0) for limit, bucket in buckets.items()}
    if any(limit.most is not None and queued[limit] > limit.most for limit in limits):
        return False
    for limit, bucket in buckets.items():
        values = {"level": queued[limit], "capacity": limit.most, "per_second": 0, "as_of": at.timestamp()}
        _put(db, conn, limit.address, values, is_new=bucket is None)
    return True


def queue_down(db: Database, conn: sa.Connection, limits: Sequence[Limit], tokens: float) -> None:
    """They are queued no longer."""
    correct(db, conn, {limit.address: -tokens for limit in limits})


@dataclass(frozen=True)
class _Wait:
    """In how many seconds there is what was taken from a bucket. What is larger than its bucket has to wait even when
    that is full, and has patience for it. `refill_seconds` is how long it takes to fill in as much."""

    seconds: float
    avoidable: float
    refill_seconds: float


def _taken(conn: sa.Connection, at: datetime, wants: Sequence[Want]) -> dict[Address, _Wait]:
    """For each bucket that there is."""
    if not wants:
        return {}
    names = ("amount", "capacity", "per_second")
    rows = [{**want.address._asdict(), **{f"new_{name}": getattr(want, name) for name in names}} for want in wants]
    now, amounts = at.timestamp(), {want.address: want.amount for want in wants}
    found = conn.execute(_taking(len(rows)), {"now": now, **numbered(rows)})
    waits: dict[Address, _Wait] = {}
    for row in found:
        address = Address(*row[:5])
        seconds = _wait(row.level, row.per_second, row.as_of - now)
        least = _wait(row.capacity - amounts[address], row.per_second, 0.0)
        refill = amounts[address] / row.per_second if row.per_second else 0.0
        waits[address] = _Wait(seconds, seconds - least, refill)
    return waits


def _wait(level: float, per_second: float, blocked: float) -> float:
    debt = -level / per_second if level < 0 < per_second else 0.0
    return max(blocked, 0.0) + debt


@lru_cache
def _taking(count: int) -> Any:
    """Refills each bucket up to now and takes from it. A level below zero is a debt to the refill to come."""
    asked = _asked(count, "new_amount", "new_capacity", "new_per_second")
    # A limit that was taken out of the settings, and that no provider has told of, is none any more.
    capacity = sa.func.coalesce(_stricter(asked, "capacity"), _b.capacity)
    per_second = sa.func.coalesce(_stricter(asked, "per_second"), 0.0)
    now = sa.bindparam("now", type_=sa.Double)
    is_past = _b.as_of < now
    refilled = _b.level + sa.case((is_past, now - _b.as_of), else_=0.0) * per_second
    left = sa.case((refilled > capacity, capacity), else_=refilled) - asked.c.new_amount
    return (
        rate_buckets.update()
        .where(same(rate_buckets, asked, _KEY))
        .values(
            level=sa.case((per_second > 0, left), else_=_b.level),
            capacity=capacity,
            per_second=per_second,
            as_of=sa.case((is_past, now), else_=_b.as_of),
        )
        .returning(*_PLACE, _b.level, _b.capacity, _b.per_second, _b.as_of)
    )


@lru_cache
def _correction(count: int) -> Any:
    """A rate may go into debt and holds no more than its capacity; a count of what is queued ends at zero."""
    asked = _asked(count, "new_amount")
    level = _b.level
    of_rate = sa.case((level - asked.c.new_amount > _b.capacity, _b.capacity), else_=level - asked.c.new_amount)
    of_count = sa.case((level + asked.c.new_amount < 0, 0.0), else_=level + asked.c.new_amount)
    is_count = _b.dimension == "queued_tokens"
    new = sa.case((is_count, of_count), (_b.per_second > 0, of_rate), else_=level)
    return rate_buckets.update().where(same(rate_buckets, asked, _KEY)).values(level=new)


def _asked(count: int, *numbers: str) -> sa.CTE:
    return wanted(count, **dict.fromkeys(_KEY, sa.Text), **dict.fromkeys(numbers, sa.Double))


def _stricter(asked: sa.CTE, name: str) -> Any:
    """By the settings, unless the provider was found to allow less."""
    own, new = _b[name], asked.c[f"new_{name}"]
    return sa.case((_b.learned & (new.is_(None) | (own < new)), own), else_=new)


def _refill(limit: float, remaining: float | None, resets_in: float | None) -> float:
    """Per second. A bucket that needs more than a minute to be full again has a longer window than a minute."""
    if resets_in and resets_in > MINUTE and remaining is not None and remaining < limit:
        return (limit - remaining) / resets_in
    return limit / MINUTE


def _is_known(bucket: _Bucket | None, limit: float | None, remaining: float | None, resets_in: float | None) -> bool:
    """Whether this tells nothing new, as most answers do: neither another limit, nor less left, nor a faster refill."""
    if bucket is None:
        return not limit
    is_less = remaining is not None and remaining < bucket.level
    if is_less or not limit:
        return not is_less
    is_faster = _refill(limit, remaining, resets_in) > _FASTER * bucket.per_second
    return bucket.learned and bucket.capacity == limit and not is_faster


def _open(db: Database, conn: sa.Connection, at: datetime, wants: Sequence[Want]) -> None:
    """Make the buckets that are missing, full."""
    rows = [
        {
            **want.address._asdict(),
            "level": want.capacity,
            "capacity": want.capacity,
            "per_second": want.per_second,
            "as_of": at.timestamp(),
        }
        for want in wants
    ]
    conn.execute(db.upsert(rate_buckets).on_conflict_do_nothing(), rows)


def _read(conn: sa.Connection, at: datetime, address: Address) -> _Bucket | None:
    query = sa.select(_b.level, _b.capacity, _b.per_second, _b.as_of, _b.learned).where(_is_at(address))
    row = conn.execute(query).first()
    if row is None:
        return None
    now = at.timestamp()
    refilled = row.level + max(now - row.as_of, 0) * row.per_second
    level = min(refilled, row.capacity) if row.per_second > 0 else row.level
    return _Bucket(level, row.capacity, row.per_second, max(now, row.as_of), row.learned)


def _put(db: Database, conn: sa.Connection, address: Address, values: dict[str, Any], *, is_new: bool) -> None:
    if is_new:
        conn.execute(db.upsert(rate_buckets).values({**address._asdict(), **values}).on_conflict_do_nothing())
    else:
        conn.execute(rate_buckets.update().where(_is_at(address)).values(values))


def _is_at(address: Address) -> sa.ColumnElement[bool]:
    return sa.and_(*(column == part for column, part in zip(_PLACE, address, strict=True)))
