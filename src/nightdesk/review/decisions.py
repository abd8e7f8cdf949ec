"""Deciding about what lies on the desk: one transaction, one decision, whoever asks and however often.

A decision is about exactly what its actor has seen: the hash that comes with it must be that of what is there. The
same actor who says the same once more is told what came of it; anybody else is told what stands (`Decided`). Until a
draft is released, or its next version begun, a decision about it can be undone.
"""

from datetime import datetime

import sqlalchemy as sa

from nightdesk.canonical import canonical
from nightdesk.errors import Invalid
from nightdesk.house import House
from nightdesk.review.asked import VERBS, Asked, Decided, Outcome
from nightdesk.review.effects import EFFECTS, Case, Stage, leave_approved
from nightdesk.review.items import Item, Row, names, read_item
from nightdesk.review.outcomes import outcome_of
from nightdesk.review.questions import decide_budget, decide_question
from nightdesk.review.safety import own_approval, require_allowed, require_patience
from nightdesk.review.undoing import undo
from nightdesk.settings import nearest

__all__ = ["Stage", "decide", "decide_in", "leave_approved"]


def decide(house: House, asked: Asked, stage: Stage = leave_approved) -> Outcome:
    """Do what is asked and say where the item stands. `stage` takes what is approved further."""
    with house.db.write() as conn:
        return decide_in(house, conn, asked, stage)


def decide_in(house: House, conn: sa.Connection, asked: Asked, stage: Stage = leave_approved) -> Outcome:
    """The same in the caller's transaction."""
    if asked.verb not in VERBS:
        raise Invalid("There is no such verb", [("verb", f'"{asked.verb[:64]}"{nearest(asked.verb, list(VERBS))}')])
    if asked.item.startswith("q."):
        return decide_question(house, conn, asked)
    if asked.item.startswith("b."):
        return decide_budget(house, conn, asked)
    return _decide_draft(house, conn, asked, stage)


def _decide_draft(house: House, conn: sa.Connection, asked: Asked, stage: Stage) -> Outcome:
    asked.actor.require("review")
    now = house.clock.now()
    item = read_item(conn, asked.item, asked.tenant, lock=True)
    require_allowed(asked, item.review["risk"])
    said = _said_before(house, conn, item, asked, now)
    if said is not None:
        return outcome_of(house, conn, item, said)
    case = Case(house, conn, asked, item, now, stage)
    if asked.verb == "undo":
        decision = undo(case)
    else:
        _require_current(house, conn, item, asked)
        require_patience(conn, asked, now)
        decision = EFFECTS[asked.verb](case)
    after = read_item(conn, asked.item)
    return outcome_of(house, conn, after, after.decision(decision))


def _said_before(house: House, conn: sa.Connection, item: Item, asked: Asked, at: datetime) -> Row | None:
    """The decision that this actor has made already, and only says once more."""
    last = item.history[-1] if item.history else None
    if last is None or not names(last, asked.hash):
        return None
    if asked.verb == "undo":
        return last if last["undone_by"] == asked.actor.name else None
    if asked.verb == "approve":
        return own_approval(house, conn, item, asked, at)
    same = last["undone_at"] is None and (last["actor"], last["verb"]) == (asked.actor.name, asked.verb)
    if not same or asked.verb == "later":  # which can be said again and again
        return None
    return last if asked.verb != "edit" or canonical(last["edits"]) == canonical(dict(asked.edits or {})) else None


def _require_current(house: House, conn: sa.Connection, item: Item, asked: Asked) -> None:
    """Compare, before anything is set: it is on the desk, and what is there is what the actor has seen."""
    if item.is_open and asked.hash == item.hash == item.review["hash"]:
        return
    about = [row for row in item.history if names(row, asked.hash)] or item.history
    stands = about[-1] if about and not item.is_open else None
    changed = "It was changed since you have looked at it." if item.is_open else ""
    raise Decided(outcome_of(house, conn, item, stands), changed)
