"""Shapes of requests. The first of a new shape goes ahead of its wave, for a batch tells of a typo only at its end."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.store import Database, shapes

# A canary that was not heard of for so long has died with its worker.
_LOST_AFTER = timedelta(minutes=15)


def is_canary(conn: sa.Connection, now: datetime, shape: str, call_id: str) -> bool:
    """Whether this call should go ahead: nothing of its shape was answered yet, and no other call is trying."""
    row = conn.execute(sa.select(shapes).where(shapes.c.shape == shape)).mappings().one_or_none()
    if row is None or row["status"] == "bad" or row["call_id"] == call_id:
        return row is None or row["status"] != "good"
    return bool(row["status"] == "trying" and row["at"] < now - _LOST_AFTER)


def send_ahead(db: Database, conn: sa.Connection, now: datetime, shape: str, call_id: str) -> None:
    """This call is the one that tries its shape, unless the shape is known to be good."""
    trying = {"status": "trying", "call_id": call_id, "at": now}
    insert = db.upsert(shapes).values(shape=shape, **trying)
    conn.execute(insert.on_conflict_do_update(index_elements=["shape"], set_=trying, where=shapes.c.status != "good"))


def came_back(conn: sa.Connection, now: datetime, shape: str, call_id: str, *, good: bool, refused: bool) -> None:
    """What the call tells of its shape. One that failed for another reason than its form tells nothing."""
    if good:
        unknown = (shapes.c.shape == shape) & (shapes.c.status != "good")
        conn.execute(shapes.update().where(unknown), {"status": "good", "at": now})
        return
    tried = (shapes.c.shape == shape) & (shapes.c.status == "trying") & (shapes.c.call_id == call_id)
    if refused:
        conn.execute(shapes.update().where(tried), {"status": "bad", "at": now})
    else:
        conn.execute(shapes.delete().where(tried))
