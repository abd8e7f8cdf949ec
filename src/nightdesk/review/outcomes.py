"""Where an item stands, told to whoever decided or came too late."""

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.review.asked import Outcome, Seeded
from nightdesk.review.items import Item, Row
from nightdesk.review.safety import awaits
from nightdesk.review.seeds import is_caught, known_reason

# What a decision leaves the task in, as long as it can be undone.
LEAVES = {"approve": "approved", "edit": "approved", "send_back": "queued", "reject": "rejected", "later": "review"}


def outcome_of(house: House, conn: sa.Connection, item: Item, row: Row | None) -> Outcome:
    """Without a row: nobody has decided on what is there."""
    told = Outcome(
        id=item.id,
        kind="draft",
        state=item.task["state"],
        hash=item.hash,
        version=item.review["version"],
        awaits=awaits(house, conn, item),
    )
    if row is None:
        return told
    kept = {name: row[name] for name in ("verb", "actor", "channel", "reason", "note", "diff", "final", "undone_by")}
    return Outcome(
        **{**_plain(told), **kept},
        at=row["decided_at"],
        can_undo=can_undo(item, row),
        seeded=_revealed(conn, item, row),
    )


def can_undo(item: Item, row: Row) -> bool:
    """Whether nothing has come of the decision yet that could not be taken back."""
    standing = item.standing
    if standing is None or standing["id"] != row["id"] or (item.review["seeded"] and row["verb"] != "later"):
        return False
    version = row["version"] + (row["verb"] == "send_back")
    state = LEAVES[row["verb"]] if row["final"] else "review"
    return bool(item.task["state"] == state and item.task["version"] == version)


def _plain(told: Outcome) -> dict[str, object]:
    return {name: getattr(told, name) for name in ("id", "kind", "state", "hash", "version", "awaits")}


def _revealed(conn: sa.Connection, item: Item, row: Row) -> Seeded | None:
    if not item.review["seeded"] or row["verb"] == "later":
        return None
    return Seeded(is_caught(row["verb"]), known_reason(conn, item.review["copy_of"]))
