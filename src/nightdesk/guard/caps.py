"""Budgets as a person sees them: how full they are, and raising one."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard.purses import Purse, dollars, purse_of, title, to_micros
from nightdesk.guard.turns import take_turn
from nightdesk.settings import Settings, nearest
from nightdesk.store import Database, budgets, tasks
from nightdesk.watch.events import record

_MOST = Decimal(1_000_000)
_ORDER = ("day", "night", "tenant", "playbook", "task")
_TENANTS_NAMED = 20
_b = budgets.c


@dataclass(frozen=True)
class Budget:
    """One row of accounts. `asked_at`: since when a person is asked for more."""

    scope: str
    name: str
    day: str
    limit_micros: int | None
    raised_micros: int = 0
    reserved_micros: int = 0
    spent_micros: int = 0
    asked_at: datetime | None = None
    freed_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def left_micros(self) -> int | None:
        """Below zero where more was spent than had been reserved. None: it has no limit."""
        if self.limit_micros is None:
            return None
        return self.limit_micros + self.raised_micros - self.spent_micros - self.reserved_micros


_COLUMNS = tuple(_b[name] for name in Budget.__dataclass_fields__)


def list_budgets(db: Database, settings: Settings, at: datetime, *, most: int = 200) -> list[Budget]:
    """Those of this day and night, those that hold reservations, and those of tasks for which a person is asked."""
    shared = purse_of(settings, at, "day"), purse_of(settings, at, "night")
    stated = {purse.key: purse for purse in shared}
    with db.read() as conn:
        rows = [Budget(*row) for row in conn.execute(_of_concern(*shared).limit(most))]
    known = {(row.scope, row.name, row.day): row for row in rows}
    for key, purse in stated.items():
        if key in known or purse.limit_micros is not None:
            known[key] = replace(known.get(key) or Budget(*key, None), limit_micros=purse.limit_micros)
    return sorted(known.values(), key=lambda budget: _ORDER.index(budget.scope))[:most]


def count_waiting(db: Database) -> int:
    """How many tasks wait for money."""
    with db.read() as conn:
        query = sa.select(sa.func.count()).where(tasks.c.waiting_for == "budget")
        return int(conn.execute(query).scalar_one())


def raise_cap(db: Database, clock: Clock, purse: Purse, amount: Decimal, *, why: str, actor: str) -> Budget:
    """Allow so many dollars more in this budget, from now until it ends. Nothing need have been paid from it yet."""
    with db.write() as conn:
        return raise_in(db, conn, clock.now(), purse, amount, why=why, actor=actor)


def raise_in(
    db: Database, conn: sa.Connection, now: datetime, purse: Purse, amount: Decimal, *, why: str, actor: str
) -> Budget:
    """The same in the caller's transaction."""
    _require(amount, why)
    if purse.limit_micros is None:
        next_step = "Nothing is held up by it. Caps are stated in nightdesk.toml under [budget], and in playbooks."
        raise NotFound(f"The budget of {title(*purse.key)} has no limit to be raised.", next_step)
    where = sa.tuple_(_b.scope, _b.name, _b.day) == sa.tuple_(*purse.key)
    take_turn(db, conn)
    new = {**dict(zip(("scope", "name", "day"), purse.key, strict=True)), "updated_at": now}
    conn.execute(db.upsert(budgets).values(new).on_conflict_do_nothing())
    raised = {"raised_micros": _b.raised_micros + to_micros(amount), "limit_micros": purse.limit_micros}
    change = budgets.update().where(where).values(**raised, asked_at=None, freed_at=now, updated_at=now)
    after = Budget(*conn.execute(change.returning(*_COLUMNS)).one())
    _record(conn, now, after, to_micros(amount), why, actor)
    return after


def refuse_in(conn: sa.Connection, now: datetime, budget: Budget, *, why: str, actor: str) -> None:
    """A person will not allow more; nobody is asked again until the next refusal."""
    where = sa.tuple_(_b.scope, _b.name, _b.day) == sa.tuple_(budget.scope, budget.name, budget.day)
    conn.execute(budgets.update().where(where).values(asked_at=None, updated_at=now))
    _record(conn, now, budget, 0, why, actor)


def read_budget(conn: sa.Connection, scope: str, name: str, day: str) -> Budget | None:
    where = sa.tuple_(_b.scope, _b.name, _b.day) == sa.tuple_(scope, name, day)
    row = conn.execute(sa.select(*_COLUMNS).where(where)).one_or_none()
    return Budget(*row) if row else None


def require_tenant(db: Database, settings: Settings, name: str) -> None:
    """Refuse a tenant that nobody has heard of, which is likely to be misspelt."""
    if name in settings.budget.tenant:
        return
    with db.read() as conn:
        if conn.execute(sa.select(tasks.c.id).where(tasks.c.tenant == name).limit(1)).first() is not None:
            return
        seen = conn.execute(sa.select(tasks.c.tenant).distinct().limit(_TENANTS_NAMED)).scalars()
        known = sorted({*seen, *settings.budget.tenant})
    hint = nearest(name, known) if known else "; there are no tasks yet"
    raise NotFound(f'There is no tenant "{name[:64]}"{hint}.', "See: nightdesk tasks list")


def _of_concern(day: Purse, night: Purse) -> sa.Select[Any]:
    """A task's budget is asked about until the task has ended; a day's and a night's until they are over."""
    current = (_b.day == day.day) | ((_b.scope == "night") & (_b.name == night.name))
    ended = sa.exists(sa.select(tasks.c.id).where(tasks.c.id == _b.name, tasks.c.ended_at.is_not(None)))
    asked = _b.asked_at.is_not(None) & (_b.scope == "task") & ~ended
    order = sa.case({scope: rank for rank, scope in enumerate(_ORDER)}, value=_b.scope)
    return (
        sa.select(*_COLUMNS)
        .where(current | (_b.reserved_micros > 0) | asked)
        .order_by(order, _b.asked_at.is_(None), _b.updated_at.desc(), _b.name)
    )


def _require(amount: Decimal, why: str) -> None:
    faults = []
    if not (amount.is_finite() and 0 < amount <= _MOST and to_micros(amount) > 0):
        faults.append(("dollars", f"must be more than 0 and at most {_MOST:,}"))
    if not why.strip():
        faults.append(("why", "is empty"))
    if faults:
        raise Invalid(
            "The budget cannot be raised", faults, "Say how much more and why; it is kept in the audit trail."
        )


def _record(conn: sa.Connection, now: datetime, after: Budget, raised: int, why: str, actor: str) -> None:
    task_id = after.name if after.scope == "task" else None
    detail = {"scope": after.scope, "name": after.name, "day": after.day, "raised_micros": after.raised_micros}
    total = (after.limit_micros or 0) + after.raised_micros
    record(
        conn, now, "budget", cause=why, actor=actor, task_id=task_id,
        prior_state=dollars(total - raised), state=dollars(total), detail=detail,
    )  # fmt: skip
