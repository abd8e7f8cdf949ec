"""Drafts that nobody has decided on in time. Time never approves: they are held, sent back or dropped."""

import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.review.asked import Actor, Asked
from nightdesk.review.effects import Case, leave_approved, send_back
from nightdesk.review.items import Item, read_item
from nightdesk.review.laying import deadline_of, terms_of
from nightdesk.review.moments import next_morning
from nightdesk.store import reviews, tasks
from nightdesk.watch.events import record
from nightdesk.work.states import move

_MOST_AT_ONCE = 200
_POLICY = Actor("policy", None, "policy", "irreversible", "policy", "policy")
_CAUSE = "nobody has decided on it in time"


def settle_overdue(house: House) -> int:
    """Do with them what their playbooks say; by default what cannot be taken back is dropped, and the rest held."""
    here = (reviews.c.task_id == tasks.c.id) & (reviews.c.version == tasks.c.version)
    due = sa.select(tasks.c.id).join(reviews, here).where(tasks.c.state == "review")
    due = due.where(reviews.c.decide_by <= house.clock.now()).order_by(reviews.c.decide_by).limit(_MOST_AT_ONCE)
    with house.db.read() as conn:
        ids = list(conn.scalars(due))
    return sum(_settle(house, task_id) for task_id in ids)


def _settle(house: House, task_id: str) -> bool:
    with house.db.write() as conn:
        item, now = read_item(conn, task_id, lock=True), house.clock.now()
        if not item.is_open or item.review["decide_by"] is None or item.review["decide_by"] > now:
            return False
        asked = Asked(task_id, "send_back", item.hash, _POLICY, reason=_CAUSE)
        _SETTLE[_policy(house, item)](Case(house, conn, asked, item, now, leave_approved))
        return True


def _policy(house: House, item: Item) -> str:
    """A seeded draft is only ever held: it must not end unanswered. So is one whose playbook is gone."""
    if item.review["seeded"] or item.task["playbook"] not in house.registry:
        return "hold"
    stated = terms_of(house.registry.get(item.task["playbook"])).overdue
    return stated or ("drop" if item.review["risk"] == "irreversible" else "hold")


def _hold(case: Case) -> None:
    task, night = case.item.task, case.house.settings.night
    morning = next_morning(night, case.at)
    known = task["playbook"] in case.house.registry
    again = deadline_of(case.house, case.house.registry.get(task["playbook"]), morning) if known else None
    case.note(later_until=morning, decide_by=again)
    record(
        case.conn, case.at, "review", cause=f"{_CAUSE}; it is held to the next morning", actor="policy",
        task_id=case.item.id, version=case.item.review["version"], state="held",
    )  # fmt: skip


def _rework(case: Case) -> None:
    send_back(case)


def _drop(case: Case) -> None:
    move(case.conn, case.at, case.item.task, "expired", cause=_CAUSE, actor="policy")
    case.note(leased_by=None, leased_until=None)


_SETTLE = {"hold": _hold, "rework": _rework, "drop": _drop}
