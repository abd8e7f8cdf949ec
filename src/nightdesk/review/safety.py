"""What a decision takes, by risk: a right, a ceiling, a way to come by, a second person or a second look."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.errors import Forbidden, TooMany
from nightdesk.guard.users import count_deciders, reaches
from nightdesk.house import House
from nightdesk.review.asked import IMPERSONAL, Actor, Asked
from nightdesk.review.items import Item, Row
from nightdesk.store import decisions, events, reviews, tasks

_MOST_PER_MINUTE = 60
_MOST_PARENTS = 50


def require_allowed(asked: Asked, risk: str) -> None:
    """Whether this person may decide so about work of this risk, coming this way."""
    actor = asked.actor
    actor.require("review")
    if actor.channel == "chat" and actor.user_id is None:
        raise Forbidden("review", "Nobody here is known by that name in the chat.", "Ask an admin to enter it.")
    if asked.verb == "later":
        return
    if not reaches(actor.ceiling, risk):
        raise Forbidden(f"review {risk}", f"You may decide about work up to {actor.ceiling}; this is {risk}.")
    if asked.verb != "send_back":
        _require_way(actor, risk)


def _require_way(actor: Actor, risk: str) -> None:
    if risk == "irreversible" and actor.channel not in ("web", *IMPERSONAL):
        raise Forbidden("review irreversible", "What cannot be taken back is decided at the desk itself.", "Sign in.")
    if risk in ("customer", "irreversible") and actor.channel == "link" and actor.assurance != "session":
        raise Forbidden("review customer", "A link shows that you have it, not who you are.", "Sign in, then decide.")


def require_patience(conn: sa.Connection, asked: Asked, at: datetime) -> None:
    """A person who decides faster than anyone can read is no person, or does not read."""
    if asked.actor.user_id is None:
        return
    recent = (decisions.c.actor == asked.actor.name) & (decisions.c.decided_at > at - timedelta(minutes=1))
    unread = reviews.c.lot.is_not(None) & ~reviews.c.sampled
    here = (reviews.c.task_id == decisions.c.task_id) & (reviews.c.version == decisions.c.version) & unread
    query = sa.select(sa.func.count()).select_from(decisions.outerjoin(reviews, here))
    count = conn.execute(query.where(recent, reviews.c.task_id.is_(None))).scalar_one()
    if count >= _MOST_PER_MINUTE:
        raise TooMany(f"You have decided {count} times within a minute.", 60)


def own_approval(house: House, conn: sa.Connection, item: Item, asked: Asked, at: datetime) -> Row | None:
    """The approval that this actor has given already, where giving it again adds nothing."""
    own = next((row for row in item.approvals if row["actor"] == asked.actor.name), None)
    if own is None or own["final"]:
        return own
    return own if _takes_two(conn) or at < _cool_at(house, own) else None


def settles(house: House, conn: sa.Connection, item: Item, asked: Asked, at: datetime) -> bool:
    """Whether this approval is the last that the draft needs. Forbidden where it may not count at all."""
    if item.review["risk"] != "irreversible":
        return True
    if not _takes_two(conn):
        return any(at >= _cool_at(house, row) for row in item.approvals)
    _require_impartial(conn, item, asked.actor)
    return any(row["actor"] != asked.actor.name for row in _personal(item))


def awaits(house: House, conn: sa.Connection, item: Item) -> str | None:
    """What an irreversible draft on the desk still needs before it is approved."""
    if not item.is_open or item.review["risk"] != "irreversible":
        return None
    if _takes_two(conn):
        return "a second person" if _personal(item) else "two people"
    if not item.approvals:
        return f"two looks, {house.settings.review.cool_down_minutes:g} minutes apart"
    return f"a second look, not before {_cool_at(house, item.approvals[0]).isoformat(timespec='seconds')}"


def _takes_two(conn: sa.Connection) -> bool:
    """Where there is only one who may decide about it, time has to do for the second."""
    return count_deciders(conn, "irreversible") > 1


def _cool_at(house: House, first: Row) -> datetime:
    cool: datetime = first["decided_at"] + timedelta(minutes=house.settings.review.cool_down_minutes)
    return cool


def _personal(item: Item) -> list[Row]:
    return [row for row in item.approvals if row["channel"] not in IMPERSONAL]


def _require_impartial(conn: sa.Connection, item: Item, actor: Actor) -> None:
    two = "It takes two people who have neither asked for it nor edited it."
    if actor.user_id is None:
        raise Forbidden(
            "review irreversible", "What cannot be taken back is approved by people who are signed in.", two
        )
    if any(row["verb"] == "edit" and row["undone_at"] is None and row["actor"] == actor.name for row in item.history):
        raise Forbidden("review irreversible", "You have edited it, so that others have to approve it.", two)
    if actor.name in _requesters(conn, item):
        raise Forbidden("review irreversible", "You have asked for this work, so that others have to approve it.", two)


def _requesters(conn: sa.Connection, item: Item) -> set[str]:
    """Who has handed in the task, or one of those that it came of."""
    found, task_id = set(), item.id
    for _ in range(_MOST_PARENTS):
        first = sa.select(events.c.actor).where(events.c.task_id == task_id).order_by(events.c.id).limit(1)
        found |= set(conn.scalars(first))
        parent = conn.execute(sa.select(tasks.c.parent_id).where(tasks.c.id == task_id)).scalar()
        if parent is None:
            break
        task_id = parent
    return found
