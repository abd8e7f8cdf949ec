"""Calls that nobody waits for any more: their task was cancelled, is too old, or came to an end without them."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.guard.turns import take_turn
from nightdesk.model.calls import Verdict, finish
from nightdesk.model.giving_back import Wake, give_back
from nightdesk.model.room import ModelRoom
from nightdesk.store import calls, tasks

_WHY = "its task came to an end without it"
_MOST_AT_ONCE = 500
# After the longest time that an answer is given, nobody is left who could write it down.
_LANDED_AFTER = timedelta(seconds=60)
_AT_WORK = ("queued", "planned", "working", "waiting")


def withdraw(room: ModelRoom, wake: Wake) -> int:
    """What has not been sent is not sent any more; what was under way counts as spent, for it may be billed."""
    left = sa.select(calls.c.id).join(tasks, tasks.c.id == calls.c.task_id)
    left = left.where(tasks.c.state.not_in(_AT_WORK) | (tasks.c.version != calls.c.version)).limit(_MOST_AT_ONCE)
    with room.house.db.read() as conn:
        unsent = conn.scalars(left.where(calls.c.status == "wanted")).all()
        lost = conn.scalars(left.where(calls.c.status == "sending", calls.c.sent_at <= _long_ago(room))).all()
    if not (unsent or lost):
        return 0
    with room.house.db.write() as conn:
        count = give_back(room, conn, calls.c.id.in_(unsent) & (calls.c.status == "wanted"), _WHY, wake)
        return count + _count_as_spent(room, conn, calls.c.id.in_(lost) & (calls.c.status == "sending"))


def _count_as_spent(room: ModelRoom, conn: sa.Connection, which: sa.ColumnElement[bool]) -> int:
    db, now = room.house.db, room.house.clock.now()
    take_turn(db, conn)
    found = conn.execute(sa.select(calls).where(which).order_by(calls.c.id).with_for_update()).mappings().all()
    verdict = Verdict(502, None, f"Nobody waits for its answer: {_WHY}.", may_be_billed=True)
    for call in found:
        finish(db, conn, now, call, verdict, again=True)
    return len(found)


def _long_ago(room: ModelRoom) -> datetime:
    settings = room.house.settings.model
    longest = timedelta(seconds=max(settings.timeout_seconds, settings.flex_minutes * 60))
    return room.house.clock.now() - longest - _LANDED_AFTER
