"""What a rehearsed night came to."""

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.model.simulator import Simulator
from nightdesk.model.simulator.meter import identity
from nightdesk.rehearsal.plan import Plan
from nightdesk.store import batches, calls, events, plan_items, tasks

_SHOWN = 20
_INCIDENTS_SHOWN = 200
_METERED_AS = {"google": "gemini"}


@dataclass(frozen=True)
class Outcome:
    """`incidents` are what breakers, budgets and last call did, in order; `paid_twice` are executions on the providers'
    bill beyond one for each call."""

    started_at: datetime
    ended_at: datetime
    seconds: float
    tasks: dict[str, int]
    calls: dict[str, int]
    batches: int
    paid_twice: int
    cost_usd: Decimal
    saved_usd: Decimal
    incidents: list[str]
    not_done: list[dict[str, Json]]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"live_cost_usd": self.cost_usd + self.saved_usd}


def outcome_of(house: House, plan: Plan, simulator: Simulator, seconds: float) -> Outcome:
    with house.db.read() as conn:
        money = conn.execute(sa.select(calls.c.cost_usd, calls.c.saved_usd)).all()
        return Outcome(
            started_at=plan.start,
            ended_at=house.clock.now(),
            seconds=round(seconds, 1),
            tasks=_counted(conn, sa.func.coalesce(sa.literal("waiting:") + tasks.c.waiting_for, tasks.c.state)),
            calls=_counted(conn, calls.c.lane),
            batches=conn.execute(sa.select(sa.func.count()).select_from(batches)).scalar_one(),
            paid_twice=_paid_twice(conn, simulator),
            cost_usd=sum((row.cost_usd for row in money), Decimal(0)),
            saved_usd=sum((row.saved_usd for row in money), Decimal(0)),
            incidents=_incidents(conn),
            not_done=_not_done(conn),
        )


def _counted(conn: sa.Connection, what: sa.ColumnElement[Any]) -> dict[str, int]:
    query = sa.select(what, sa.func.count()).group_by(what).order_by(sa.func.count().desc())
    return {row[0]: row[1] for row in conn.execute(query)}


def _paid_twice(conn: sa.Connection, simulator: Simulator) -> int:
    """Tasks may ask the same, and are to pay for it each; so calls are counted, by what makes executions the same."""
    asked: Counter[str] = Counter()
    own = calls.c.reused_from.is_(None) & (calls.c.status != "diverted")
    for row in conn.execute(sa.select(calls.c.provider, calls.c.model, calls.c.request).where(own)):
        asked[identity(_METERED_AS.get(row.provider, row.provider), row.request | {"model": row.model})] += 1
    executed: Counter[str] = Counter()
    for item in simulator.report(items=True)["items"]:
        executed[item["id"]] += item["count"]
    return (executed - asked).total()


def _incidents(conn: sa.Connection) -> list[str]:
    told = events.c.kind.in_(("night", "breaker", "budget", "last_call", "batch", "divergence"))
    query = sa.select(events.c.at, events.c.kind, events.c.state, events.c.cause).where(told).order_by(events.c.id)
    query = query.limit(_INCIDENTS_SHOWN)
    return [
        f"{row.at:%H:%M} {row.kind}{f' {row.state}' if row.state else ''}: {row.cause[:200]}"
        for row in conn.execute(query)
    ]


def _not_done(conn: sa.Connection) -> list[dict[str, Json]]:
    """Tasks that did not come to a result, each with why the plan left it out, or what was last said of it."""
    left_out = sa.select(plan_items.c.why).where(plan_items.c.task_id == tasks.c.id, ~plan_items.c.chosen)
    last = sa.select(events.c.cause).where(events.c.task_id == tasks.c.id, events.c.kind == "state")
    told = last.order_by(events.c.id.desc()).limit(1).scalar_subquery()
    why = sa.func.coalesce(left_out.limit(1).scalar_subquery(), told)
    without = tasks.c.state.not_in(("done", "review")) | (tasks.c.error.is_not(None))
    query = sa.select(tasks.c.id, tasks.c.playbook, tasks.c.key, tasks.c.state, why.label("why")).where(without)
    return [dict(row) for row in conn.execute(query.limit(_SHOWN)).mappings()]
