"""Soft leases: who is looking at a draft, so that two do not read the same one. They bind nobody."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from nightdesk.errors import Conflict
from nightdesk.house import House
from nightdesk.review.asked import Actor
from nightdesk.review.items import Item, read_item
from nightdesk.store import reviews

_LEASE = timedelta(minutes=5)


@dataclass(frozen=True)
class Lease:
    """`mine` tells whether whoever asked has it."""

    holder: str
    until: datetime
    mine: bool


def lease(house: House, item: str, actor: Actor, *, take: bool = False, tenant: str | None = None) -> Lease:
    """Begin to look at a draft, or go on looking; another's lease stands until it ends, unless it is taken over.

    The moment at which the actor began is kept with the draft: it is when a decision was opened.
    """
    actor.require("review")
    with house.db.write() as conn:
        found = read_item(conn, item, tenant, lock=True)
        now = house.clock.now()
        if not found.is_open:
            raise Conflict(f"It is {found.task['state']} now.", "Go on to the next.")
        held = holder_of(found, now)
        if held is not None and held.holder != actor.name and not take:
            return held
        until = now + _LEASE
        values: dict[str, object] = {"leased_by": actor.name, "leased_until": until}
        if held is None or held.holder != actor.name:
            values |= {"opened_at": now, "opened_by": actor.name}
        here = (reviews.c.task_id == found.id) & (reviews.c.version == found.review["version"])
        conn.execute(reviews.update().where(here), values)
        return Lease(actor.name, until, mine=True)


def leave(house: House, item: str, actor: Actor) -> None:
    """Stop looking, without a decision."""
    here = (reviews.c.task_id == item) & (reviews.c.leased_by == actor.name)
    with house.db.write() as conn:
        conn.execute(reviews.update().where(here), {"leased_by": None, "leased_until": None})


def holder_of(item: Item, at: datetime) -> Lease | None:
    """Whose lease stands at this moment."""
    by, until = item.review["leased_by"], item.review["leased_until"]
    return Lease(by, until, mine=False) if by is not None and until > at else None
