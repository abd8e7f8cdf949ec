"""Waves: calls that wait for a batch and fit together leave as one, when nothing more will join them soon."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.guard import breakers, rates
from nightdesk.guard.limits import Limit, queue_limits_for
from nightdesk.guard.turns import take_turn
from nightdesk.model.giving_back import Wake, give_back, in_pieces
from nightdesk.model.room import ModelRoom
from nightdesk.store import batches, calls, shapes

# The smallest of the providers' limits, less a margin.
_MOST_BYTES = 180_000_000
# What a body gains in size by its line's frame in a batch.
_FRAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class _Member:
    id: str
    tokens: int


def form_waves(room: ModelRoom, wake: Wake) -> int:
    """Put every wave that is ready on its way, as a row that says what is about to be sent; the answer is how many."""
    _free_refused(room, wake)
    with room.house.db.read() as conn:
        ready = [row[0] for row in conn.execute(_ready(room, room.house.clock.now()))]
    return sum(_form(room, group, wake) for group in ready)


def _free_refused(room: ModelRoom, wake: Wake) -> None:
    """Calls whose shape was refused while they waited for it to be tried are to hear the refusal themselves. One that
    has joined since then knew of it."""
    bad = (shapes.c.shape == calls.c.shape) & (shapes.c.status == "bad") & (shapes.c.at >= calls.c.joined_at)
    refused = (calls.c.status == "wanted") & sa.exists().where(bad)
    with room.house.db.read() as conn:
        found = conn.execute(sa.select(calls.c.id).where(refused).limit(1)).first()
    if found is not None:
        with room.house.db.write() as conn:
            give_back(room, conn, refused, "the first request of its shape was refused", wake)


def _ready(room: ModelRoom, now: datetime) -> sa.Select[Any]:
    """Groups whose newest member came a while ago, whose oldest has waited long enough, or that are full."""
    settings = room.house.settings.waves
    settled, overdue = (
        now - timedelta(seconds=seconds) for seconds in (settings.settle_seconds, settings.longest_wait_seconds)
    )
    newest, oldest = sa.func.max(calls.c.joined_at), sa.func.min(calls.c.joined_at)
    full = sa.func.count() >= settings.most_items
    return (
        sa.select(calls.c.wave_group)
        .where(_may_leave(room, now))
        .group_by(calls.c.wave_group)
        .having((newest <= settled) | (oldest <= overdue) | full)
    )


def _may_leave(room: ModelRoom, now: datetime) -> sa.ColumnElement[bool]:
    """A call of a shape that is still being tried stays, though not for ever: the one that tries it may have died."""
    settings = room.house.settings.waves
    wanted = (calls.c.status == "wanted") & (calls.c.joined_at <= now)
    if not settings.canary:
        return wanted
    good = sa.select(shapes.c.shape).where(shapes.c.status == "good")
    overdue = calls.c.joined_at <= now - timedelta(seconds=settings.longest_wait_seconds)
    return wanted & (calls.c.shape.in_(good) | overdue)


def _form(room: ModelRoom, group: str, wake: Wake) -> bool:
    db, now = room.house.db, room.house.clock.now()
    with db.write() as conn:
        db.lock(conn, f"nightdesk-wave-{group}")
        take_turn(db, conn)
        first = conn.execute(sa.select(calls).where(_may_leave(room, now), calls.c.wave_group == group).limit(1))
        call = first.mappings().one_or_none()
        if call is None:
            return False
        verdict = breakers.look(conn, now, call["provider"], call["model"], "batch")
        if not verdict.allowed:
            # Let each task choose anew: another lane, the playbook's fallback, or to wait for the breaker.
            waiting = (calls.c.wave_group == group) & (calls.c.status == "wanted")
            give_back(room, conn, waiting, f"the breaker of the batch lane is open: {verdict.why}", wake)
            return False
        members = _with_room(room, conn, call, _members(room, conn, call, now))
        if not members:
            return False
        # The turn is held since `look`: if there is a trial to be had, it is this wave's.
        breakers.allow(db, conn, now, call["provider"], call["model"], "batch", room.house.settings.breakers)
        _write(room, conn, call, members, now)
    failpoint("batch-formed", call["provider"])
    return True


def _members(room: ModelRoom, conn: sa.Connection, call: Any, now: datetime) -> list[_Member]:
    """The most urgent calls of the group, as many as the provider takes in one batch."""
    size = sa.func.length(sa.cast(calls.c.request, sa.Text))
    query = (
        sa.select(calls.c.id, size, calls.c.input_estimate)
        .where(_may_leave(room, now), calls.c.wave_group == call["wave_group"])
        .order_by(calls.c.priority, calls.c.joined_at, calls.c.id)
        .limit(_most(room, conn, call["wave_group"]))
        .with_for_update(skip_locked=True)
    )
    found: list[_Member] = []
    total = 0
    for name, length, tokens in conn.execute(query):
        total += length + _FRAME_BYTES
        if found and total > _MOST_BYTES:
            break
        found.append(_Member(name, tokens))
    return found


def _most(room: ModelRoom, conn: sa.Connection, group: str) -> int:
    """No more than half of a wave for which the provider has just had no room: there may never be any for so many."""
    last = sa.select(batches.c.members, batches.c.outcome).where(batches.c.wave_group == group)
    row = conn.execute(last.order_by(batches.c.created_at.desc()).limit(1)).first()
    most = room.house.settings.waves.most_items
    return min(most, max(1, row.members // 2)) if row and (row.outcome or {}).get("no_room") else most


def _with_room(room: ModelRoom, conn: sa.Connection, call: Any, members: list[_Member]) -> list[_Member]:
    """As many of them as the limit of queued tokens has room for: all, or half of them, or a quarter, and so on."""
    limits = queue_limits(room, call)
    db, now = room.house.db, room.house.clock.now()
    while members and not rates.queue_up(db, conn, now, limits, sum(member.tokens for member in members)):
        members = members[: len(members) // 2]
    return members


def queue_limits(room: ModelRoom, row: Any) -> list[Limit]:
    """The limits of queued tokens that a batch (or a call for one) is under; tenants share their batches."""
    return queue_limits_for(room.house.settings, row["provider"], row["credential"], row["model"], "*")


def _write(room: ModelRoom, conn: sa.Connection, call: Any, members: Sequence[_Member], now: datetime) -> None:
    """The intent: what is about to be sent, before anything is."""
    name = uuid.uuid4().hex
    model = "*" if call["provider"] == "anthropic" else call["model"]
    takes = room.estimates.batch_seconds(conn, call["provider"], call["model"])
    shared = ("provider", "endpoint", "base_url", "credential", "wave_group", "headers")
    row = {column: call[column] for column in shared} | {
        "id": name,
        "model": model,
        "status": "intent",
        "members": len(members),
        "input_tokens": sum(member.tokens for member in members),
        "next_at": now,
        "created_at": now,
        "expected_at": now + timedelta(seconds=takes),
    }
    conn.execute(batches.insert(), row)
    for some in in_pieces(members):
        ids = [member.id for member in some]
        sent = {"status": "sent", "batch_id": name, "sent_at": now, "attempt": calls.c.attempt + 1}
        conn.execute(calls.update().where(calls.c.id.in_(ids)).values(sent))
