"""The audit trail's one way in."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.store import events, tasks
from nightdesk.store.types import Instant


def record(
    conn: sa.Connection,
    at: datetime,
    kind: str,
    *,
    cause: str,
    actor: str,
    task_id: str | None = None,
    version: int | None = None,
    prior_state: str | None = None,
    state: str | None = None,
    detail: Json = None,
) -> None:
    """Add one event row to the transaction of the change that it tells of."""
    conn.execute(
        events.insert(),
        {
            "at": at,
            "kind": kind,
            "cause": cause,
            "actor": actor,
            "task_id": task_id,
            "version": version,
            "prior_state": prior_state,
            "state": state,
            "detail": detail,
        },
    )


def record_moves(
    conn: sa.Connection,
    at: datetime,
    task_ids: Sequence[str],
    *,
    cause: str,
    actor: str,
    prior_state: str,
    state: str,
) -> None:
    """One row for each of these tasks, which change their state alike."""
    told = {"kind": "state", "cause": cause, "actor": actor, "prior_state": prior_state, "state": state}
    literals = [sa.literal(at, Instant), *(sa.literal(text, sa.Text) for text in told.values())]
    rows = sa.select(tasks.c.id, tasks.c.version, *literals).where(tasks.c.id.in_(task_ids))
    conn.execute(events.insert().from_select(["task_id", "version", "at", *told], rows))
