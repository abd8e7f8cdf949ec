"""The steps of a night from state to state, each taken once by whoever comes first."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.house import House
from nightdesk.night.schedule import Night
from nightdesk.store import nights
from nightdesk.watch.events import record

LOCK = "nightdesk-night"


def take_step(
    house: House, conn: sa.Connection, at: datetime, night: Night, to: str, *, cause: str, **columns: Any
) -> bool:
    """Take the night from the state that it was seen in to the next; false if somebody else has."""
    house.db.lock(conn, LOCK)
    unchanged = (nights.c.name == night["name"]) & (nights.c.state == night["state"])
    values = columns | {"state": to, "moved_at": at}
    if not conn.execute(nights.update().where(unchanged).values(values)).rowcount:
        return False
    detail = {"night": night["name"]}
    record(conn, at, "night", cause=cause, actor="night", prior_state=night["state"], state=to, detail=detail)
    failpoint(f"night-{to}")
    return True
