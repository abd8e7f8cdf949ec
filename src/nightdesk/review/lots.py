"""Lots: drafts of one playbook that may be approved together, once a random sample of them was read and found good.

The sample is as large as it must be to show, with 95 % confidence, that fewer than a share of the lot is bad. One bad
draft anywhere in the lot ends it: what is left of it is read one by one.
"""

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from nightdesk.errors import Conflict, NotFound
from nightdesk.guard.users import reaches
from nightdesk.house import House
from nightdesk.review.asked import Actor
from nightdesk.review.moments import morning_of
from nightdesk.store import drafts, lots, reviews, tasks
from nightdesk.watch.events import record

_DOUBT = Fraction(5, 100)
_MOST = 1000
_LOCK = "nightdesk-lots"
_RISKS = ("internal", "reversible")


@dataclass(frozen=True)
class Lot:
    """`to_read` are those of the sample that its actor has not decided on yet, `rest` what the sample speaks for."""

    id: str
    playbook: str
    actor: str
    state: str
    items: int
    sample: Sequence[str]
    to_read: Sequence[str]
    rest: Sequence[str]


def sample_size(items: int, bad_percent: float) -> int:
    """How many must be looked at, and all be good, for 95 % confidence that fewer than this share of them are bad."""
    bad = max(1, int(items * Fraction(str(bad_percent)) / 100))
    chance, size = Fraction(1), 0
    while chance > _DOUBT and size < items:
        chance *= Fraction(max(0, items - bad - size), items - size)
        size += 1
    return size


def draw(house: House, playbook: str, actor: Actor, tenant: str | None = None) -> Lot:
    """The lot of this actor for this playbook: the one that is open, else what lies on the desk now, with a fresh
    sample. Conflict: there are so few that all would have to be read."""
    actor.require("review")
    with house.db.write() as conn:
        house.db.lock(conn, _LOCK)
        now = house.clock.now()
        _lapse(conn, now, morning_of(house.settings.night, now))
        own = (lots.c.playbook == playbook) & (lots.c.actor == actor.name) & (lots.c.state == "drawn")
        found = conn.execute(sa.select(lots.c.id).where(own)).scalar()
        return read_lot(conn, found or _draw(house, conn, now, playbook, actor, tenant))


def look_at(house: House, lot: str) -> Lot:
    with house.db.read() as conn:
        return read_lot(conn, lot)


def read_lot(conn: sa.Connection, lot: str) -> Lot:
    row = conn.execute(sa.select(lots).where(lots.c.id == lot)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"There is no lot {lot}.", "Draw one from the list of the desk.")
    is_open = (tasks.c.state == "review") & (tasks.c.version == reviews.c.version)
    query = sa.select(reviews.c.task_id, reviews.c.sampled, is_open.label("is_open"))
    query = query.join(tasks, tasks.c.id == reviews.c.task_id).where(reviews.c.lot == lot)
    found = conn.execute(query.order_by(reviews.c.created_at, reviews.c.task_id)).all()
    return Lot(
        **{name: row[name] for name in ("id", "playbook", "actor", "state", "items")},
        sample=[item.task_id for item in found if item.sampled],
        to_read=[item.task_id for item in found if item.sampled and item.is_open],
        rest=[item.task_id for item in found if not item.sampled and item.is_open],
    )


def cancel_lot(conn: sa.Connection, at: datetime, lot: str) -> None:
    """One bad draft was found in it."""
    still = (lots.c.id == lot) & (lots.c.state == "drawn")
    conn.execute(lots.update().where(still), {"state": "cancelled", "ended_at": at})


def _lapse(conn: sa.Connection, now: datetime, morning: datetime) -> None:
    """What was drawn on an earlier day is no lot any more: its drafts may be drawn again."""
    old = (lots.c.state == "drawn") & (lots.c.drawn_at < morning)
    lapsed = conn.execute(sa.select(lots.c.id).where(old)).scalars().all()
    if lapsed:
        conn.execute(lots.update().where(lots.c.id.in_(lapsed)), {"state": "lapsed", "ended_at": now})
        conn.execute(reviews.update().where(reviews.c.lot.in_(lapsed)), {"lot": None, "sampled": False})


def _draw(house: House, conn: sa.Connection, now: datetime, playbook: str, actor: Actor, tenant: str | None) -> str:
    found = conn.execute(_fit(playbook, tenant)).all()
    fit = [row.task_id for row in found if reaches(actor.ceiling, row.risk)]
    size = sample_size(len(fit), house.settings.review.batch_bad_percent)
    if size >= len(fit):
        raise Conflict(
            f"Only {len(fit)} drafts of {playbook} could be approved together: so few that each is to be read.",
            "Decide on them one by one.",
        )
    sample = secrets.SystemRandom().sample(fit, size)
    lot = f"lot_{uuid.uuid4().hex}"
    row = {"id": lot, "playbook": playbook, "actor": actor.name, "state": "drawn", "items": len(fit), "sample": size}
    conn.execute(lots.insert(), row | {"drawn_at": now})
    newest = sa.select(tasks.c.version).where(tasks.c.id == reviews.c.task_id).scalar_subquery()
    conn.execute(reviews.update().where(reviews.c.task_id.in_(fit), reviews.c.version == newest), {"lot": lot})
    conn.execute(reviews.update().where(reviews.c.lot == lot, reviews.c.task_id.in_(sample)), {"sampled": True})
    cause = f"{size} of {len(fit)} drafts of {playbook} are to be read"
    record(conn, now, "lot", cause=cause, actor=actor.name, state="drawn", detail={"lot": lot, "sample": sample})
    return lot


def _fit(playbook: str, tenant: str | None) -> sa.Select[Any]:
    """What may be approved together: of little risk, all gates green, and in no lot that had a bad one."""
    on_the_desk = (tasks.c.state == "review") & (tasks.c.version == reviews.c.version)
    draft = (drafts.c.task_id == reviews.c.task_id) & (drafts.c.version == reviews.c.version)
    query = (
        sa.select(reviews.c.task_id, reviews.c.risk)
        .join(tasks, tasks.c.id == reviews.c.task_id)
        .join(drafts, draft & drafts.c.passed)
        .where(on_the_desk, tasks.c.playbook == playbook, reviews.c.risk.in_(_RISKS), ~reviews.c.seeded)
        .where(reviews.c.lot.is_(None))
    )
    if tenant is not None:
        query = query.where(tasks.c.tenant == tenant)
    return query.order_by(reviews.c.created_at, reviews.c.task_id).limit(_MOST)
