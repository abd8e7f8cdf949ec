"""How long people take over a draft: what the playbook says, until it was seen how long they take."""

import statistics
from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.review.laying import terms_of
from nightdesk.review.places import texts_at
from nightdesk.review.words import words
from nightdesk.store import decisions, tasks

# For a playbook that does not say, until it was measured.
_MINUTES = 3.0
_DECISIONS_LOOKED_AT = 1000
# A person who looked for so long was not looking all the time.
_LONGEST = timedelta(hours=2)
# What a practised reader reads, and the share of that time below which a decision is flagged.
_WORDS_PER_MINUTE = 238
_QUICK = 0.25
_d = decisions.c


class ReviewMinutes:
    """Of each playbook, looked up once."""

    def __init__(self, house: House, conn: sa.Connection) -> None:
        self._registry = house.registry
        self._conn = conn
        self._known: dict[str, float] = {}

    def of(self, name: str) -> float:
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def on_the_desk(self) -> tuple[int, float]:
        """How many drafts lie there already, and how long they take together."""
        counts = self._conn.execute(_ON_THE_DESK).all()
        return sum(count for _, count in counts), sum(self.of(name) * count for name, count in counts)

    def _look_up(self, name: str) -> float:
        if name not in self._registry:
            return _MINUTES
        playbook = self._registry.get(name)
        if playbook.risk == "internal":
            return 0.0
        observed = observed_minutes(self._conn, name)
        return stated_minutes(playbook) if observed is None else observed


def stated_minutes(playbook: Playbook) -> float:
    stated = terms_of(playbook).minutes
    return _MINUTES if stated is None else stated


def observed_minutes(conn: sa.Connection, playbook: str) -> float | None:
    """The median of how long people looked at a draft of this playbook before they decided; None until they have."""
    last = (
        sa.select(_d.task_id, _d.opened_at, _d.decided_at)
        .where(_d.final, _d.undone_at.is_(None), _d.opened_at.is_not(None))
        .order_by(_d.decided_at.desc())
        .limit(_DECISIONS_LOOKED_AT)
        .subquery()
    )
    query = sa.select(last.c.opened_at, last.c.decided_at).join(tasks, tasks.c.id == last.c.task_id)
    took = [row.decided_at - row.opened_at for row in conn.execute(query.where(tasks.c.playbook == playbook))]
    seen = [time.total_seconds() / 60 for time in took if time <= _LONGEST]
    return statistics.median(seen) if seen else None


def is_quick(payload: Json, opened_at: datetime | None, decided_at: datetime) -> bool:
    """Whether it was decided in less than a quarter of the time that reading it takes."""
    if opened_at is None:
        return False
    count = sum(len(words(str(found.value))) for found in texts_at(payload, [None]))
    return (decided_at - opened_at).total_seconds() / 60 < count / _WORDS_PER_MINUTE * _QUICK


_ON_THE_DESK = sa.select(tasks.c.playbook, sa.func.count()).where(tasks.c.state == "review").group_by(tasks.c.playbook)
