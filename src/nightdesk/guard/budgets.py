"""Budgets: money is reserved in every purse that a call is paid from, or in none, before the call is sent."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from nightdesk.guard.purses import Key, Purse, Refusal, Sums, purses_for, refusal_of, share
from nightdesk.guard.turns import numbered, same, take_turn, wanted
from nightdesk.store import Database, budgets
from nightdesk.store.types import Instant
from nightdesk.watch.events import record

__all__ = ["Purse", "Refusal", "keys_of", "note_refusal", "purses_for", "release", "reserve", "settle", "use"]

_KEY = ("scope", "name", "day")
_SUMS = tuple(budgets.c[f"{name}_micros"] for name in Sums._fields)


def reserve(db: Database, conn: sa.Connection, at: datetime, purses: Sequence[Purse], micros: int) -> Refusal | None:
    """Reserve so much in all the purses; or in none, and say which refused."""
    if micros < 0:
        raise ValueError(f"{micros} millionths of a dollar cannot be reserved")
    take_turn(db, conn)
    if _reserved_in_all(conn, at, purses, micros):
        return None
    sums = _read(conn, purses)
    if len(sums) < len(purses):
        _open(db, conn, at, purses)
        if _reserved_in_all(conn, at, purses, micros):
            return None
        sums = _read(conn, purses)
    return refusal_of(purses, sums, micros)


def settle(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    keys: Sequence[Sequence[str]],
    reserved_micros: int,
    spent_micros: int,
) -> None:
    """What was reserved in the purses with these keys is so no longer; this much was spent, be it less or more."""
    if not keys:
        return
    take_turn(db, conn)
    rows = [dict(zip(_KEY, key, strict=True)) for key in keys]
    values = {"at": at, "freed": reserved_micros, "spent": spent_micros, **numbered(rows)}
    if len(conn.execute(_settlement(len(rows)), values).all()) != len(rows):
        raise RuntimeError(f"not all of the budgets {list(keys)} are there to be settled")


def release(db: Database, conn: sa.Connection, at: datetime, keys: Sequence[Sequence[str]], micros: int) -> None:
    """Nothing of what was reserved was spent."""
    settle(db, conn, at, keys, micros, 0)


def use(conn: sa.Connection, purses: Sequence[Purse]) -> float:
    """How full the fullest of the purses is: 0.8 when four fifths of its limit are spent or reserved."""
    limited = [purse for purse in purses if purse.limit_micros is not None]
    sums = _read(conn, limited) if limited else {}
    return max((share(purse, sums.get(purse.key, Sums())) for purse in limited), default=0.0)


def note_refusal(conn: sa.Connection, at: datetime, refusal: Refusal) -> bool:
    """Put on record that a person is asked for money. False: they were, and have not raised this budget since."""
    purse = refusal.purse
    unasked = (budgets.c.asked_at.is_(None), *(budgets.c[name] == part for name, part in _named(purse).items()))
    values = {"asked_at": at, "limit_micros": purse.limit_micros, "updated_at": at}
    if not conn.execute(budgets.update().where(*unasked).values(values)).rowcount:
        return False
    task_id = purse.name if purse.scope == "task" else None
    detail = {**_named(purse), "limit_micros": refusal.limit_micros}
    record(conn, at, "budget", cause=refusal.sentence, actor="worker", task_id=task_id, state="asked", detail=detail)
    return True


def keys_of(purses: Sequence[Purse]) -> list[list[str]]:
    """As they are stored with a call, for `settle`."""
    return [list(purse.key) for purse in purses]


def _reserved_in_all(conn: sa.Connection, at: datetime, purses: Sequence[Purse], micros: int) -> bool:
    rows = [{**_named(purse), "cap": purse.limit_micros} for purse in purses]
    found = conn.execute(_reservation(len(rows)), {"at": at, "micros": micros, **numbered(rows)})
    return len(found.all()) == len(rows)


@lru_cache
def _reservation(count: int) -> Any:
    """Changes all of the rows, or none if one is missing or has too little left."""
    asked = wanted(count, scope=sa.Text, name=sa.Text, day=sa.Text, cap=sa.BigInteger)
    held = sa.select(*budgets.c, asked.c.cap).join_from(budgets, asked, same(budgets, asked, _KEY)).cte("held")
    micros = sa.bindparam("micros", type_=sa.BigInteger)
    too_much = held.c.spent_micros + held.c.reserved_micros + micros > held.c.cap + held.c.raised_micros
    all_there = sa.select(sa.func.count()).select_from(held).scalar_subquery() == count
    return (
        budgets.update()
        .where(same(budgets, held, _KEY), all_there, ~sa.exists(sa.select(held.c.scope).where(too_much)))
        .values(
            reserved_micros=budgets.c.reserved_micros + micros,
            limit_micros=held.c.cap,
            updated_at=sa.bindparam("at", type_=Instant),
        )
        .returning(budgets.c.scope)
    )


@lru_cache
def _settlement(count: int) -> Any:
    asked = wanted(count, scope=sa.Text, name=sa.Text, day=sa.Text)
    at = sa.bindparam("at", type_=Instant)
    freed, spent = (sa.bindparam(name, type_=sa.BigInteger) for name in ("freed", "spent"))
    return (
        budgets.update()
        .where(same(budgets, asked, _KEY))
        .values(
            reserved_micros=budgets.c.reserved_micros - freed,
            spent_micros=budgets.c.spent_micros + spent,
            freed_at=sa.case((spent < freed, at), else_=budgets.c.freed_at),
            updated_at=at,
        )
        .returning(budgets.c.scope)
    )


def _open(db: Database, conn: sa.Connection, at: datetime, purses: Sequence[Purse]) -> None:
    """Make the rows that are missing."""
    rows = [{**_named(purse), "limit_micros": purse.limit_micros, "updated_at": at} for purse in purses]
    conn.execute(db.upsert(budgets).on_conflict_do_nothing(), rows)


def _read(conn: sa.Connection, purses: Sequence[Purse]) -> dict[Key, Sums]:
    columns = [budgets.c[name] for name in _KEY]
    query = sa.select(*columns, *_SUMS).where(sa.tuple_(*columns).in_([purse.key for purse in purses]))
    return {(row[0], row[1], row[2]): Sums(*row[3:]) for row in conn.execute(query)}


def _named(purse: Purse) -> dict[str, Any]:
    return dict(zip(_KEY, purse.key, strict=True))
