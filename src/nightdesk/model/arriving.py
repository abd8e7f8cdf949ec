"""The results of a batch, written to its calls with their money; whoever waited for them is woken."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.guard import breakers
from nightdesk.model import prices
from nightdesk.model.calls import Call, Verdict, add_cost, ended
from nightdesk.model.giving_back import Wake, give_back, in_pieces, settle_all, wake_all
from nightdesk.model.providers import PROVIDERS
from nightdesk.model.providers.base import ItemResult
from nightdesk.model.room import ModelRoom
from nightdesk.store import calls

# All of a call but what was sent, which is long and of no use here.
_COLUMNS = [column for column in calls.c if column.name not in ("request", "response", "headers")]
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "prices")
_RETURNED = {"expired": "it expired in its batch", "cancelled": "it was cancelled with its batch"}


def arrive(room: ModelRoom, conn: sa.Connection, batch: Any, results: Sequence[ItemResult], wake: Wake) -> Counter[str]:
    """Write these results; the answer counts their kinds. One that came before, or is not of this batch, is nothing."""
    told = {result.name: result for result in reversed(results)}  # of two the first counts
    ends: list[tuple[Call, Verdict]] = []
    returns: dict[str, list[str]] = defaultdict(list)
    for call in _out(conn, batch, calls.c.id.in_(told)):
        result = told[call["id"]]
        why = _RETURNED.get(result.kind) or _latched(room, conn, batch, result)
        if why:
            returns[why].append(call["id"])
        else:
            ends.append((call, _verdict(batch, result)))
    _end(room, conn, ends, "failed")
    for why, names in returns.items():
        give_back(room, conn, calls.c.id.in_(names), why, wake)
    wake(conn, _complete(conn, batch, {call["task_id"] for call, _ in ends}))
    kinds = Counter(told[call["id"]].kind for call, _ in ends)
    returned = sum(map(len, returns.values()))
    return kinds + Counter(returned=returned, strange=len(results) - len(ends) - returned)


def forsake(room: ModelRoom, conn: sa.Connection, batch: Any, why: str, wake: Wake) -> int:
    """The answers may be billed, but cannot be had: what they may have cost is spent, and a person must decide."""
    lost = Verdict(502, None, f"The answer was lost with its batch: {why}", may_be_billed=True)
    found = _out(conn, batch, sa.true())
    for some in in_pieces(found):
        _end(room, conn, [(call, lost) for call in some], "lost")
    wake_all(conn, found, wake)
    return len(found)


def _out(conn: sa.Connection, batch: Any, which: sa.ColumnElement[bool]) -> Sequence[Call]:
    """Calls of the batch that are still out, held until the transaction ends."""
    out = sa.select(*_COLUMNS).where(calls.c.batch_id == batch["id"], calls.c.status == "sent", which)
    return conn.execute(out.order_by(calls.c.id).with_for_update()).mappings().all()


def _latched(room: ModelRoom, conn: sa.Connection, batch: Any, result: ItemResult) -> str:
    """For want of credentials or credit nothing was run: nobody is to go that way until a person has acted."""
    if result.kind != "error":
        return ""
    trouble = PROVIDERS[batch["provider"]].trouble(result.status, result.body)
    if trouble not in ("credentials", "spend"):
        return ""
    why = _told(result)
    now = room.house.clock.now()
    breakers.latch(room.house.db, conn, now, batch["provider"], batch["model"], "batch", why)
    return why


def _verdict(batch: Any, result: ItemResult) -> Verdict:
    if result.kind == "done" and not isinstance(result.body, dict):
        why = "The answer came back empty from its batch."
        body = PROVIDERS[batch["provider"]].error(batch["endpoint"], 502, why)
        return Verdict(502, body, why, may_be_billed=True)
    return Verdict(result.status, result.body, None if result.kind == "done" else _told(result))


def _told(result: ItemResult) -> str:
    return f"HTTP {result.status}: {json.dumps(result.body)[:500]}"


def _end(room: ModelRoom, conn: sa.Connection, ends: Sequence[tuple[Call, Verdict]], unanswered: str) -> None:
    """Write how these calls ended, and settle their money."""
    now = room.house.clock.now()
    changes = [(call, ended(now, call, verdict)) for call, verdict in ends]
    rows = [
        {"p_id": call["id"], **dict.fromkeys(_TOKENS), **columns}
        | ({} if columns["status"] == "done" else {"status": unanswered})
        for call, columns in changes
    ]
    if not rows:
        return
    conn.execute(calls.update().where(calls.c.id == sa.bindparam("p_id")), rows)
    paid = [(call, columns["cost_usd"] - call["cost_usd"]) for call, columns in changes]
    settle_all(room.house.db, conn, now, ((call, prices.micros(cost)) for call, cost in paid))
    add_cost(conn, _by_task(paid))


def _by_task(paid: Iterable[tuple[Call, Decimal]]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for call, cost in paid:
        sums[call["task_id"]] += cost
    return sums


def _complete(conn: sa.Connection, batch: Any, task_ids: set[str]) -> list[str]:
    """Those of the tasks that have nothing more in this batch: the others are woken with their last result."""
    out = sa.select(calls.c.task_id).where(
        calls.c.batch_id == batch["id"], calls.c.status == "sent", calls.c.task_id.in_(task_ids)
    )
    return sorted(task_ids - set(conn.scalars(out)))
