"""The audit trail's one way in."""

from datetime import datetime

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.store import events


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
