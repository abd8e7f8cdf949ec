"""Laying a draft on the desk, in the transaction that ends its leg: why it is there, how doubtful it is, until when."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import canonical, digest
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.playbook.statement import ReviewPart
from nightdesk.review.moments import next_time
from nightdesk.review.seeds import RANDOM_CHECK, is_checked_at_random, seed_beside
from nightdesk.store import reviews
from nightdesk.work.draft import Draft
from nightdesk.work.states import Task

_LONGEST_WHY = 500
WHY = {
    "internal": "nobody else would look at it",
    "reversible": "what can be taken back is looked at too, or sampled",
    "customer": "customers will see it, so each is read",
    "irreversible": "it cannot be taken back, so two people look at it",
}


def lay_on_desk(conn: sa.Connection, house: House, task: Task, draft: Draft | None, why: str) -> None:
    """Without a draft there is only the reason why a person is needed."""
    playbook, now = house.registry.get(task["playbook"]), house.clock.now()
    address = {"task_id": task["id"], "version": task["version"]}
    row = {
        "hash": hash_of(draft.payload if draft else None),
        "risk": playbook.risk,
        "doubt": _doubt(draft),
        "why_here": _why_here(house, playbook, task, draft, why),
        "created_at": now,
        "decide_by": deadline_of(house, playbook, now),
    }
    again = house.db.upsert(reviews).values(**address, **row)
    conn.execute(again.on_conflict_do_update(index_elements=list(address), set_=row))
    if draft is not None:
        seed_beside(house, conn, now, playbook, task, row)


def hash_of(payload: Any) -> str:
    """What a decision is bound to."""
    return digest(canonical(payload))


def terms_of(playbook: Playbook) -> ReviewPart:
    """What the playbook states of its review."""
    return ReviewPart.model_validate(playbook.definition.get("review") or {})


def deadline_of(house: House, playbook: Playbook, at: datetime) -> datetime | None:
    wall = terms_of(playbook).decide_by
    return next_time(house.settings.night, at, wall) if wall else None


def _why_here(house: House, playbook: Playbook, task: Task, draft: Draft | None, why: str) -> str:
    if draft is None:
        return why[:_LONGEST_WHY]
    if draft.failing:
        others = len(draft.failing) - 1
        return draft.failing[0].sentence[:_LONGEST_WHY] + (f", and {others} more" if others else "")
    if task["version"] > 1:
        return f"it was sent back before; this is version {task['version']}"
    if is_checked_at_random(house, task):
        return RANDOM_CHECK
    return WHY[playbook.risk]


def _doubt(draft: Draft | None) -> float:
    """Two where there is nothing to look at, one and more where gates failed, else what a judge's score lacks."""
    if draft is None:
        return 2.0
    if draft.failing:
        return 1.0 + len(draft.failing) / len(draft.verdicts)
    scores = [verdict.value for verdict in draft.verdicts if verdict.gate == "judge"]
    return 1.0 - min((score for score in scores if isinstance(score, int | float)), default=1.0)
