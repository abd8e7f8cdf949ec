"""Holding a batch: one worker at a time works on it, and one that died is followed by another."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

import sqlalchemy as sa

from nightdesk.model.room import ModelRoom
from nightdesk.store import batches


class HoldLost(Exception):
    """Another worker has taken this batch over: leave it to that one."""


@dataclass
class Hold:
    """A batch that this worker holds, until the lease ends or it lets go."""

    room: ModelRoom
    holder: str
    batch: dict[str, Any] = field(repr=False)

    def mark(self, **values: Any) -> None:
        """Store this about the batch, and hold it for longer."""
        with self.room.house.db.write() as conn:
            self.keep(conn, **values)

    def keep(self, conn: sa.Connection, **values: Any) -> None:
        """The same within a transaction, which a worker that has lost the batch is refused."""
        if not self._write(conn, values | {"held_until": _until(self.room)}):
            raise HoldLost
        self.batch |= values

    def release(self, next_at: datetime, **values: Any) -> None:
        with self.room.house.db.write() as conn:
            self._write(conn, values | {"holder": None, "held_until": None, "next_at": next_at})

    def finish(self, conn: sa.Connection, status: str, **values: Any) -> bool:
        now = self.room.house.clock.now()
        ended = {"status": status, "ended_at": now, "holder": None, "held_until": None, "next_at": None}
        return self._write(conn, ended | values)

    def _write(self, conn: sa.Connection, values: dict[str, Any]) -> bool:
        own = (batches.c.id == self.batch["id"]) & (batches.c.holder == self.holder)
        return bool(conn.execute(batches.update().where(own).values(values)).rowcount)


def claim(room: ModelRoom, holder: str, statuses: tuple[str, ...]) -> Hold | None:
    """The next batch of these statuses that is due and that nobody holds.

    Each claim has a name of its own: a thread that was too slow must not take for its own what another of the same
    worker has claimed since.
    """
    db, now = room.house.db, room.house.clock.now()
    free = batches.c.holder.is_(None) | (batches.c.held_until <= now)
    due = (
        sa.select(batches)
        .where(batches.c.ended_at.is_(None), batches.c.status.in_(statuses), batches.c.next_at <= now, free)
        .order_by(batches.c.next_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    with db.write() as conn:
        row = conn.execute(due).mappings().one_or_none()
        if row is None:
            return None
        own = f"{holder}/{uuid.uuid4().hex}"
        held = {"holder": own, "held_until": _until(room)}
        conn.execute(batches.update().where(batches.c.id == row["id"]).values(held))
    return Hold(room, own, dict(row) | held)


def is_sure(outcome: dict[str, Any] | None) -> bool:
    """Whether the provider's batch is ours with certainty: one adopted by its size and time alone is so at its end."""
    return bool((outcome or {}).get("sure", True))


@contextmanager
def kept(hold: Hold) -> Iterator[None]:
    """Hold on to the batch while it is worked on, also when that takes long, such as sending 200 MB."""
    over = Event()
    pause = hold.room.house.settings.worker.lease_seconds / 3

    def renew() -> None:
        while not over.wait(pause):
            # Lost, or the database is away: what is under way finds out when it is done.
            with suppress(HoldLost, sa.exc.SQLAlchemyError):
                hold.mark()

    thread = Thread(target=renew, name="batch-hold", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=1)


def _until(room: ModelRoom) -> datetime:
    return room.house.clock.now() + timedelta(seconds=room.house.settings.worker.lease_seconds)
