"""What a night came to, in figures: counted when it is closed, and kept in its row."""

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.night.schedule import Night
from nightdesk.store import calls, drafts, nights, plan_items, tasks

_t = tasks.c
_MICRO = Decimal("0.000001")
_NOTHING = Decimal(0).quantize(_MICRO)
# What went back to the queue is told of beside what waits.
_NOT_STARTED = "not started"


def figures_of(house: House, conn: sa.Connection, night: Night, at: datetime) -> dict[str, Json]:
    """`waiting` has how many wait for what; `exceptions` is what a person has to look into."""
    states = _counted(conn, night, _t.state)
    cost, saved = money_of(conn, night)
    finished = states["done"] + states["review"]
    known = sum(states.values())
    return {
        "planned": _planned(conn, night),
        "new": _new(conn, night),
        **{state: states[state] for state in ("done", "review", "dead", "expired", "cancelled")},
        "exceptions": states["dead"] + _failed_drafts(conn, night),
        "breaches": _breaches(house, conn, night, at),
        "waiting": _waiting(conn, night, states["queued"]),
        "cost_usd": str(cost),
        "live_cost_usd": str(cost + saved),
        "saved_usd": str(saved),
        "cost_per_task": str((cost / finished).quantize(_MICRO)) if finished else None,
        "completion_rate": round(finished / known, 4) if known else None,
        "started_at": _shown(night["opened_at"]),
        "ended_at": _shown(at),
    }


def _counted(conn: sa.Connection, night: Night, what: sa.ColumnElement[Any]) -> Counter[str]:
    query = sa.select(what, sa.func.count()).where(_t.night == night["name"]).group_by(what)
    return Counter({row[0]: row[1] for row in conn.execute(query) if row[0] is not None})


def _waiting(conn: sa.Connection, night: Night, not_started: int) -> dict[str, Json]:
    return dict(_counted(conn, night, _t.waiting_for)) | ({_NOT_STARTED: not_started} if not_started else {})


def _planned(conn: sa.Connection, night: Night) -> int:
    chosen = sa.select(sa.func.count()).where(plan_items.c.night == night["name"], plan_items.c.chosen)
    return int(conn.execute(chosen).scalar_one())


def _new(conn: sa.Connection, night: Night) -> int:
    """What was handed in since the last night was closed."""
    last = conn.execute(sa.select(sa.func.max(nights.c.closed_at)).where(nights.c.name != night["name"])).scalar()
    count = sa.select(sa.func.count()).select_from(tasks)
    return int(conn.execute(count if last is None else count.where(_t.created_at > last)).scalar_one())


def _failed_drafts(conn: sa.Connection, night: Night) -> int:
    failed = sa.exists(
        sa.select(1).where(drafts.c.task_id == _t.id, drafts.c.version == _t.version, drafts.c.passed.is_(False))
    )
    on_the_desk = (_t.night == night["name"]) & (_t.state == "review")
    query = sa.select(sa.func.count()).select_from(tasks).where(on_the_desk, _t.error.is_not(None) | failed)
    return int(conn.execute(query).scalar_one())


def _breaches(house: House, conn: sa.Connection, night: Night, at: datetime) -> dict[str, Json]:
    """Tasks that were not ready in the time that their playbook promises, by priority."""
    promised = {pb.name: timedelta(seconds=pb.sla_seconds) for pb in house.registry if pb.sla_seconds is not None}
    columns = (_t.playbook, _t.priority, _t.state, _t.created_at, _t.updated_at, _t.ended_at)
    query = sa.select(*columns).where(_t.night == night["name"], _t.playbook.in_(list(promised)))
    late: Counter[str] = Counter({f"P{priority}": 0 for priority in range(4)})
    for row in conn.execute(query):
        ready = row.ended_at or (row.updated_at if row.state == "review" else at)
        late[f"P{row.priority}"] += ready - row.created_at > promised[row.playbook]
    return dict(late)


def money_of(conn: sa.Connection, night: Night) -> tuple[Decimal, Decimal]:
    """What the night has cost so far, and what waiting has saved against live prices, by the calls that came to their
    end since it opened."""
    if night["opened_at"] is None:
        return _NOTHING, _NOTHING
    sums = (
        sa.select(sa.func.sum(calls.c.cost_usd), sa.func.sum(calls.c.saved_usd))
        .join(tasks, _t.id == calls.c.task_id)
        .where(_t.night == night["name"], calls.c.ended_at >= night["opened_at"])
    )
    cost, saved = conn.execute(sums).one()
    return cost or _NOTHING, saved or _NOTHING


def _shown(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
