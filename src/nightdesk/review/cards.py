"""What an approver must see of an item before they decide: the same for pages, programs and the terminal.

A card never tells whether its draft is a seeded one.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import Forbidden
from nightdesk.guard.purses import dollars, title
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.playbook.keys import filled
from nightdesk.review.asked import Actor, Asked
from nightdesk.review.grounds import change_of, evidence_of, provenance_of, rollback_of, sentence_of, told
from nightdesk.review.hidden import hidden_in
from nightdesk.review.items import Item, read_item
from nightdesk.review.laying import terms_of
from nightdesk.review.leases import holder_of
from nightdesk.review.outcomes import can_undo, outcome_of
from nightdesk.review.questions import Question, Want, find_question, find_want
from nightdesk.review.safety import awaits, require_allowed, settles

Card = dict[str, Any]

RISK = {
    "internal": "it stays in the house",
    "reversible": "it is seen outside, and can be taken back",
    "customer": "customers see it",
    "irreversible": "it cannot be taken back",
}
OVERDUE = {
    "hold": "otherwise held to the next morning",
    "rework": "otherwise sent back for another version",
    "drop": "otherwise dropped",
}
_FIELDS = (
    "id", "kind", "playbook", "title", "tenant", "priority", "version", "state", "hash", "sentence", "risk",
    "risk_reason", "why_here", "payload", "input", "hidden", "gates", "evidence", "impact", "rollback", "deadline",
    "at_deadline", "provenance", "changed", "history", "checklist", "reasons", "verbs", "may_not", "awaits", "lease",
    "later_until", "outcome",
)  # fmt: skip
_LISTS = ("hidden", "gates", "evidence", "history", "checklist", "reasons")


def find(house: House, item: str, actor: Actor | None = None, tenant: str | None = None) -> Card:
    """The card of a draft, a question or a budget. For an actor it says why they may not approve it, if so."""
    with house.db.read() as conn:
        if item.startswith("q."):
            return question_card(house, find_question(conn, item, tenant))
        if item.startswith("b."):
            return want_card(find_want(conn, item, tenant), actor)
        return draft_card(house, conn, read_item(conn, item, tenant), actor)


def draft_card(house: House, conn: sa.Connection, item: Item, actor: Actor | None = None) -> Card:
    task, review, now = item.task, item.review, house.clock.now()
    known = task["playbook"] in house.registry
    playbook = house.registry.get(task["playbook"]) if known else None
    kept = {name: review[name] for name in ("version", "risk", "why_here", "later_until")}
    card = {
        "id": item.id,
        "kind": "draft",
        **{name: task[name] for name in ("playbook", "tenant", "state", "input")},
        **kept,
        "priority": f"P{task['priority']}",
        "title": playbook.title if playbook else task["playbook"],
        "hash": item.hash,
        "payload": item.payload,
        "risk_reason": RISK[review["risk"]],
        "hidden": [asdict(found) for found in hidden_in(item.payload)],
        "gates": item.draft["gates"] if item.draft else [],
        "provenance": provenance_of(conn, item),
        "changed": change_of(conn, item),
        "history": [told(row) for row in item.history if row["version"] == review["version"]],
        "verbs": _verbs(item),
        "may_not": _may_not(house, conn, item, actor, now),
        "awaits": awaits(house, conn, item),
        "lease": _lease(item, now),
        "outcome": outcome_of(house, conn, item, item.standing).as_json() if not item.is_open else None,
    }
    return _whole(card | (_stated(playbook, item) if playbook else {"sentence": f"Decide on {item.id}"}))


def question_card(house: House, question: Question) -> Card:
    task, playbook = question.task, question.task["playbook"]
    title = house.registry.get(playbook).title if playbook in house.registry else playbook
    default = question.payload["default"]
    return _whole(
        {
            "id": question.id,
            "kind": "question",
            **{name: task[name] for name in ("playbook", "tenant", "version", "input")},
            "priority": f"P{task['priority']}",
            "title": title,
            "state": "asked",
            "hash": question.hash,
            "payload": question.payload,
            "hidden": [asdict(found) for found in hidden_in(question.payload)],
            "sentence": str(question.payload["question"]),
            "why_here": "the task asks, and waits",
            "impact": "the task goes on with the answer",
            "rollback": "the answer is given at once",
            "deadline": question.until,
            "at_deadline": f"otherwise “{default}” is taken" if question.until else None,
            "verbs": ["edit"] if default is None else ["approve", "edit"],
        }
    )


def want_card(want: Want, actor: Actor | None = None) -> Card:
    budget = want.budget
    named = title(budget.scope, budget.name, budget.day)
    return _whole(
        {
            "id": want.id,
            "kind": "budget",
            "title": f"The budget of {named}",
            "state": "asked",
            "hash": want.hash,
            "payload": want.payload,
            "sentence": f"Allow {dollars(want.suggested_micros)} more for {named}",
            "risk": "irreversible",
            "risk_reason": "money that is spent is gone",
            "why_here": "it is used up, and work waits for more",
            "impact": "what waits for money goes on",
            "rollback": "what is not spent by its end is not spent at all",
            "may_not": None if actor is None or "operate" in actor.rights else "This needs the right to operate.",
            "verbs": ["approve", "edit", "reject"],
        }
    )


def _stated(playbook: Playbook, item: Item) -> Card:
    """What the playbook says of it."""
    terms, order = terms_of(playbook), item.task["input"]
    overdue = terms.overdue or ("drop" if playbook.risk == "irreversible" else "hold")
    decide_by = item.review["decide_by"]
    return {
        "sentence": sentence_of(playbook, item.task),
        "impact": filled(terms.impact, order) if terms.impact else RISK[item.review["risk"]],
        "rollback": filled(terms.rollback, order) if terms.rollback else rollback_of(playbook, item),
        "deadline": decide_by,
        "at_deadline": OVERDUE[overdue] if decide_by else None,
        "evidence": evidence_of(playbook, item),
        "checklist": terms.checklist,
        "reasons": terms.reasons,
    }


def _verbs(item: Item) -> list[str]:
    standing = item.standing
    undo = ["undo"] if standing is not None and can_undo(item, standing) else []
    if not item.is_open:
        return undo
    return [*(["approve"] if item.draft else []), "edit", "send_back", "reject", "later", *undo]


def _may_not(house: House, conn: sa.Connection, item: Item, actor: Actor | None, at: datetime) -> str | None:
    if actor is None:
        return None
    asked = Asked(item.id, "approve", item.hash, actor)
    try:
        require_allowed(asked, item.review["risk"])
        settles(house, conn, item, asked, at)
    except Forbidden as error:
        return str(error)
    return None


def _lease(item: Item, at: datetime) -> Json:
    held = holder_of(item, at)
    return {"holder": held.holder, "until": held.until} if held else None


def _whole(card: Card) -> Card:
    """Every card has every field."""
    whole: Card = jsonable({name: card.get(name, [] if name in _LISTS else None) for name in _FIELDS})
    return whole
