"""Tasks that gather: a playbook with `when: {depth: N}` begins when N of its tasks lie in the queue, or the first of
them has lain there for long enough; then all of them begin."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.store import tasks
from nightdesk.work.queue import dispatch_next

_MOST_AT_ONCE = 500
_t = tasks.c


def dispatch_gathered(house: House) -> int:
    """The answer is how many tasks were let begin."""
    gathering = [playbook for playbook in house.registry if playbook.when.kind == "depth"]
    return sum(_let_begin(house, playbook) for playbook in gathering if _is_time(house, playbook))


def _is_time(house: House, playbook: Playbook) -> bool:
    now, when = house.clock.now(), playbook.when
    with house.db.read() as conn:
        count, first = conn.execute(
            sa.select(sa.func.count(), sa.func.min(_t.created_at)).where(_lies(playbook, now))
        ).one()
        return count >= when.depth or (first is not None and first + timedelta(seconds=when.seconds) <= now)


def _let_begin(house: House, playbook: Playbook) -> int:
    total, now = 0, house.clock.now()
    while True:
        chosen = sa.select(tasks).where(_lies(playbook, now)).order_by(_t.priority, _t.created_at)
        with house.db.write() as conn:
            found = conn.execute(chosen.limit(_MOST_AT_ONCE).with_for_update(skip_locked=True)).mappings().all()
            for task in found:
                conn.execute(tasks.update().where(_t.id == task["id"]), dispatch_next(house, conn, task))
        total += len(found)
        if len(found) < _MOST_AT_ONCE:
            return total


def _lies(playbook: Playbook, now: datetime) -> sa.ColumnElement[bool]:
    """It was never dispatched, and may be. What a night has taken in is the night's."""
    may_begin = (_t.created_at <= now) & (_t.not_before.is_(None) | (_t.not_before <= now))
    return (_t.playbook == playbook.name) & (_t.state == "queued") & (_t.leg == 1) & _t.until.is_(None) & may_begin
