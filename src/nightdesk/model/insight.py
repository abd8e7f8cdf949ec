"""What anyone can ask about calls to models; the web and the command line both ask here."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.guard.purses import MICROS
from nightdesk.house import House
from nightdesk.store import calls, tasks

_FIELDS = (
    "id", "task_id", "version", "step", "occurrence", "provider", "model", "lane", "lane_reason", "status", "attempt",
    "batch_id", "tools", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
    "saved_usd", "reused_from", "http_status", "error", "created_at", "sent_at", "ended_at", "duration_ms",
)  # fmt: skip


def list_calls(
    house: House,
    *,
    task: str | None = None,
    playbook: str | None = None,
    tenant: str | None = None,
    provider: str | None = None,
    lane: str | None = None,
    status: str | None = None,
    limit: int = 50,
) -> list[dict[str, Json]]:
    """The newest first. What was asked and answered is left out: it may be long, and is anyone's words."""
    of_call = {"task_id": task, "provider": provider, "lane": lane, "status": status}
    of_task = {"playbook": playbook, "tenant": tenant}
    stated = [calls.c[name] == value for name, value in of_call.items() if value is not None]
    stated += [tasks.c[name] == value for name, value in of_task.items() if value is not None]
    columns = [calls.c[name] for name in (*_FIELDS, "reserved_micros")]
    query = sa.select(*columns, tasks.c.playbook).join(tasks, tasks.c.id == calls.c.task_id).where(*stated)
    query = query.order_by(calls.c.created_at.desc(), calls.c.id.desc()).limit(limit)
    with house.db.read() as conn:
        return [_call_json(row) for row in conn.execute(query).mappings()]


def _call_json(row: Mapping[Any, Any]) -> dict[str, Json]:
    shown = {name: _value(row[name]) for name in _FIELDS}
    reserved = Decimal(row["reserved_micros"]) / MICROS
    return {"playbook": row["playbook"]} | shown | {"reserved_usd": f"{reserved:.6f}"}


def _value(value: Any) -> Json:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case Decimal():
            return format(value, "f")
    return value
