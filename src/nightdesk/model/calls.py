"""The journal of calls: one row per call, from the wish to the answer, and the money that goes with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, jsonable, storable
from nightdesk.guard import budgets
from nightdesk.model import prices
from nightdesk.model.asks import Ask, HttpAnswer
from nightdesk.store import Database, calls, tasks

Call = Mapping[Any, Any]  # a row of calls

_LONGEST_ERROR = 2_000
MICROS = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one call: an answer of the provider, or the reason why there is none.

    A request that got no answer after it was sent may be billed: its worst case counts as spent.
    """

    status: int
    body: Json
    error: str | None = None
    may_be_billed: bool = False

    @property
    def is_answer(self) -> bool:
        return 200 <= self.status < 300


def of_task(conn: sa.Connection, task_id: str, version: int) -> dict[str, Call]:
    """All calls of a task's version, by id."""
    query = sa.select(calls).where(calls.c.task_id == task_id, calls.c.version == version)
    return {row["id"]: row for row in conn.execute(query).mappings()}


def find(conn: sa.Connection, call_id: str) -> Call | None:
    return conn.execute(sa.select(calls).where(calls.c.id == call_id)).mappings().one_or_none()


def write(db: Database, conn: sa.Connection, row: dict[str, Any]) -> None:
    """Store the call, or what is new about it."""
    insert = db.upsert(calls).values(**row)
    changed = {name: value for name, value in row.items() if name not in ("id", "created_at")}
    conn.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))


def finish(
    db: Database, conn: sa.Connection, at: datetime, call: Call, verdict: Verdict, *, again: bool = False
) -> dict[str, Any]:
    """Write the call's end and settle its money; the answer is the columns that changed."""
    columns = ended(at, call, verdict) | {"again": again}
    conn.execute(calls.update().where(calls.c.id == call["id"]), columns)
    cost = columns["cost_usd"] - call["cost_usd"]
    budgets.settle(db, conn, at, call["budgets"], call["reserved_micros"], prices.micros(cost))
    add_cost(conn, {call["task_id"]: cost})
    return columns


def ended(at: datetime, call: Call, verdict: Verdict) -> dict[str, Any]:
    """The columns of a call that has ended this way."""
    began = call["sent_at"] or call["created_at"]
    return _costs(at, call, verdict) | {
        "status": "done" if verdict.is_answer else "failed",
        "http_status": verdict.status,
        "response": jsonable(verdict.body),
        "error": storable(verdict.error[:_LONGEST_ERROR]) if verdict.error else None,
        "ended_at": at,
        "duration_ms": max(0, round((at - began).total_seconds() * 1000)),
        "reserved_micros": 0,
        "again": False,
    }


def _costs(at: datetime, call: Call, verdict: Verdict) -> dict[str, Any]:
    if verdict.is_answer:
        return _paid(at, call, verdict.body)
    lost = Decimal(call["reserved_micros"]) / MICROS if verdict.may_be_billed else Decimal(0)
    return {"cost_usd": call["cost_usd"] + lost, "saved_usd": call["saved_usd"]}


def _paid(at: datetime, call: Call, answer: Json) -> dict[str, Any]:
    """Tokens and cost of an answer. A model without a price costs what its playbook said that a call may cost."""
    usage = prices.usage_of(call["endpoint"], call["provider"], answer)
    cost = prices.cost(call["provider"], call["model"], usage, call["lane"], at.date())
    live = prices.cost(call["provider"], call["model"], usage, "live", at.date())
    known = cost if cost is not None else Decimal(call["reserved_micros"]) / MICROS
    saved = live - cost if live is not None and cost is not None else Decimal(0)
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "cost_usd": call["cost_usd"] + _to_micros(known),
        "saved_usd": call["saved_usd"] + _to_micros(saved),
        "prices": prices.PRICES,
    }


def _to_micros(dollars: Decimal) -> Decimal:
    return Decimal(prices.micros(dollars)) / MICROS


def add_cost(conn: sa.Connection, costs: Mapping[str, Decimal]) -> None:
    """Add what calls cost to the tasks that made them. Decimals are added here, for SQLite has none."""
    paid = [task_id for task_id, cost in sorted(costs.items()) if cost]
    if not paid:
        return
    held = sa.select(tasks.c.id, tasks.c.cost_usd).where(tasks.c.id.in_(paid)).order_by(tasks.c.id).with_for_update()
    sums = [{"p_id": row.id, "cost_usd": row.cost_usd + costs[row.id]} for row in conn.execute(held).all()]
    conn.execute(tasks.update().where(tasks.c.id == sa.bindparam("p_id")), sums)


def same_of_another(conn: sa.Connection, ask: Ask, task: Call) -> Call | None:
    """The last answer to the same request that another task of the tenant got."""
    query = (
        sa.select(calls)
        .join(tasks, tasks.c.id == calls.c.task_id)
        .where(calls.c.body_hash == ask.hash, calls.c.status == "done", calls.c.base_url == ask.base_url)
        .where(tasks.c.tenant == task["tenant"], tasks.c.id != task["id"])
        .order_by(calls.c.created_at.desc())
        .limit(1)
    )
    return conn.execute(query).mappings().first()


def forgive(conn: sa.Connection, task_id: str, version: int) -> None:
    """The leg has failed: when the task is tried again, the calls that failed are asked again."""
    failed = (calls.c.task_id == task_id) & (calls.c.version == version) & (calls.c.status == "failed")
    conn.execute(calls.update().where(failed), {"again": True})


def arrived(conn: sa.Connection, call_ids: list[str]) -> bool:
    """Whether one of these calls, for which a leg would wait, is no longer out."""
    out = calls.c.id.in_(call_ids) & calls.c.status.in_(("wanted", "sent"))
    return int(conn.execute(sa.select(sa.func.count()).where(out)).scalar_one()) < len(set(call_ids))


def to_answer(call: Call, body: bytes, content_type: str) -> HttpAnswer:
    """The HTTP answer of a call that has ended. No SDK is to try again by itself: the task does."""
    headers = {"content-type": content_type, "x-should-retry": "false", "x-nightdesk-call": call["id"]}
    return HttpAnswer(call["http_status"], body, headers)
