"""Whether anything of a night can still come to something before it ends."""

import sqlalchemy as sa

from nightdesk.night.schedule import Night
from nightdesk.store import plan_items, tasks

_t = tasks.c


def is_moving(night: Night) -> sa.ColumnElement[bool]:
    """Tasks of the night that are at work, in the line for it, or wait for what the night itself will bring."""
    will_be_called = _t.rank.is_not(None) | (_t.wake_at < night["stops_at"])
    waits = will_be_called | _t.waiting_for.in_(("batch", "turn")) | is_due(night)
    return sa.and_(
        _t.night == night["name"],
        sa.or_(
            _t.state.in_(("planned", "working")),
            (_t.state == "queued") & will_be_called,
            (_t.state == "waiting") & waits,
        ),
    )


def is_due(night: Night) -> sa.ColumnElement[bool]:
    """The task is in the night's plan, and was not dispatched yet."""
    item = (plan_items.c.night == night["name"]) & (plan_items.c.task_id == _t.id)
    return sa.exists(sa.select(1).where(item, plan_items.c.chosen, plan_items.c.dispatched_at.is_(None)))


def any_of(conn: sa.Connection, which: sa.ColumnElement[bool]) -> bool:
    return bool(conn.execute(sa.select(sa.exists(sa.select(1).select_from(tasks).where(which)))).scalar())
