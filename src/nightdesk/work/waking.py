"""Waking what waits for money or for a provider: when some is free again, when a person has acted."""

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.guard.purses import local_day, night_of
from nightdesk.house import House
from nightdesk.store import breakers, budgets, calls, tasks
from nightdesk.work.queue import wake

# Those who are woken all ask again: not so many at a time that they push each other aside.
_MOST_FOR_MONEY = 50
_MOST_AT_ONCE = 500
# A leg is refused some moments before its task is a row that waits; what was freed in between is for that one too.
_MOMENTS = timedelta(seconds=5)


def wake_for_money(house: House) -> int:
    """Wake tasks that wait for budget, if some was freed or allowed since, and none of theirs is full."""
    freed = sa.exists(sa.select(budgets.c.scope).where(_pays(house), _since_it_waits(house, budgets.c.freed_at)))
    used, limit = budgets.c.spent_micros + budgets.c.reserved_micros, budgets.c.limit_micros + budgets.c.raised_micros
    full = sa.exists(sa.select(budgets.c.scope).where(_pays(house), used >= limit))
    return _wake(house, (tasks.c.waiting_for == "budget") & freed & ~full, _MOST_FOR_MONEY)


def wake_for_new_caps(house: House) -> int:
    """Let those who wait for budget ask again, as a worker starts: the caps in settings and playbooks may be others."""
    return _wake(house, tasks.c.waiting_for == "budget", _MOST_AT_ONCE)


def wake_for_breakers(house: House) -> int:
    """Wake tasks that wait for a person to mend a provider's credentials or credit, once a breaker was reset."""
    is_closed = (breakers.c.state == "closed") & _since_it_waits(house, breakers.c.changed_at)
    reset = sa.exists(sa.select(breakers.c.provider).where(is_closed))
    return _wake(house, (tasks.c.waiting_for == "breaker") & tasks.c.wake_at.is_(None) & reset, _MOST_AT_ONCE)


def wake_forgotten(house: House) -> int:
    """Wake tasks that wait for calls of which none is out any more: the wake-up was lost."""
    out = sa.exists(sa.select(calls.c.id).where(calls.c.task_id == tasks.c.id, calls.c.status.in_(("wanted", "sent"))))
    return _wake(house, (tasks.c.waiting_for == "batch") & tasks.c.wake_at.is_(None) & ~out, _MOST_AT_ONCE)


def _since_it_waits(house: House, moment: sa.Column[Any]) -> sa.ColumnElement[bool]:
    return (moment >= tasks.c.updated_at) | (moment > house.clock.now() - _MOMENTS)


def _pays(house: House) -> sa.ColumnElement[bool]:
    """The budgets, of today and tonight, that a task is paid from."""
    now, b = house.clock.now(), budgets.c
    today, tonight = local_day(house.settings, now), night_of(house.settings, now)
    return sa.or_(
        (b.scope == "day") & (b.day == today),
        (b.scope == "playbook") & (b.day == today) & (b.name == tasks.c.playbook),
        (b.scope == "tenant") & (b.day == today) & (b.name == tasks.c.tenant),
        (b.scope == "night") & (b.name == tonight) & tasks.c.until.is_not(None),
        (b.scope == "task") & (b.name == tasks.c.id),
    )


def _wake(house: House, which: sa.ColumnElement[bool], most: int) -> int:
    waiting = sa.select(tasks).where(tasks.c.state == "waiting", tasks.c.rank.is_(None), which)
    chosen = waiting.order_by(tasks.c.priority, tasks.c.created_at).limit(most).with_for_update(skip_locked=True)
    with house.db.write() as conn:
        found: list[Any] = list(conn.execute(chosen).mappings())
        for task in found:
            wake(house, conn, task)
    return len(found)
