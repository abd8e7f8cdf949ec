"""Executor slots: leased names. A worker holds one and renews it; who does not renew is taken for dead.

The name and its epoch together are the worker's executor id in DBOS, so that no two processes ever share
one: a worker that was only paused, and comes back after its slot was given away, can neither renew nor be
mistaken for its successor.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from nightdesk.store import Database, slots


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    epoch: int
    holder: str

    @property
    def executor_id(self) -> str:
        return f"{self.name}.{self.epoch}"


def acquire(db: Database, lease_seconds: int) -> Slot:
    """Take the first free slot, or open a new one."""
    with db.write() as conn:
        db.lock(conn, "nightdesk-slots")
        now = db.now(conn)
        rows = list(conn.execute(sa.select(slots).order_by(slots.c.name)).mappings())
        free = next((row for row in rows if row["holder"] is None), None)
        name = free["name"] if free else f"w{len(rows) + 1}"
        slot = Slot(name, free["epoch"] + 1 if free else 1, f"{_machine()}:{os.getpid()}")
        values = {
            "epoch": slot.epoch,
            "holder": slot.holder,
            "started_at": now,
            "expires_at": now + timedelta(seconds=lease_seconds),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        if free:
            conn.execute(slots.update().where(slots.c.name == name), values)
        else:
            conn.execute(slots.insert(), {"name": name} | values)
        return slot


def renew(db: Database, slot: Slot, lease_seconds: int) -> bool:
    """Hold the slot for another lease; false means that it was given away."""
    with db.write() as conn:
        values = {"expires_at": db.now(conn) + timedelta(seconds=lease_seconds)}
        return conn.execute(slots.update().where(_is(slot)), values).rowcount == 1


def release(db: Database, slot: Slot) -> None:
    with db.write() as conn:
        conn.execute(slots.update().where(_is(slot)), {"holder": None, "expires_at": None})


def free_dead(db: Database, *, trust_leases: bool) -> None:
    """Take the slots of the dead from them. Their epoch moves on, so they cannot renew if they were only paused.

    Dead is whose process is gone from this machine and, where leases can be trusted, whose lease ran out.
    After an outage of the database they cannot be: nobody could renew.
    """
    with db.write() as conn:
        now = db.now(conn)
        for row in list(conn.execute(sa.select(slots).where(slots.c.holder.is_not(None))).mappings()):
            if _is_gone(row["holder"]) or (trust_leases and row["expires_at"] < now):
                held = Slot(row["name"], row["epoch"], row["holder"])
                values = {"holder": None, "expires_at": None, "epoch": row["epoch"] + 1}
                conn.execute(slots.update().where(_is(held)), values)


def live_executors(db: Database) -> list[str]:
    """Executor ids of the slots that are held, in the order of their names."""
    with db.read() as conn:
        rows = conn.execute(sa.select(slots).where(slots.c.holder.is_not(None)).order_by(slots.c.name)).mappings()
        return [f"{row['name']}.{row['epoch']}" for row in rows]


def workers(db: Database) -> list[dict[str, object]]:
    """The live workers, for people to look at."""
    with db.read() as conn:
        return workers_in(db, conn)


def workers_in(db: Database, conn: sa.Connection) -> list[dict[str, object]]:
    """The same in a transaction that the caller has open already."""
    now: datetime = db.now(conn)
    rows = conn.execute(sa.select(slots).where(slots.c.holder.is_not(None)).order_by(slots.c.name)).mappings()
    return [
        {
            "name": row["name"],
            "host": row["host"],
            "pid": row["pid"],
            "started_at": row["started_at"],
            "alive": row["expires_at"] >= now and not _is_gone(row["holder"]),
        }
        for row in rows
    ]


def _is(slot: Slot) -> sa.ColumnElement[bool]:
    return sa.and_(slots.c.name == slot.name, slots.c.epoch == slot.epoch, slots.c.holder == slot.holder)


def _machine() -> str:
    """This boot of this machine and this space of process numbers: only there does a process number mean anything."""
    marks = [socket.gethostname()]
    with suppress(OSError):
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        marks.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(marks)


def _is_gone(holder: str) -> bool:
    machine, _, pid = holder.rpartition(":")
    if machine != _machine():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
