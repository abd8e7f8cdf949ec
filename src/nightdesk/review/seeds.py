"""Known-bad drafts among the others, to see whether they are caught: each is a copy of one that a person refused.

How many is a setting, none by default. A seeded draft looks like any other: it says that it came up in a random check,
as some true ones do. Its reviewer is told right after the answer. It can never be released, and no rate counts it:
decisions on it are never `final`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import digest
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.store import decisions, drafts, reviews, tasks
from nightdesk.watch.events import record
from nightdesk.work.states import Task

RANDOM_CHECK = "it came up in a random check"
# So that one of these in four is a seeded one.
_TRUE_CHECKS = 3
# Two people would have to be fooled by what cannot be taken back, and nobody reads what stays inside.
_SEEDED_RISKS = ("reversible", "customer")
_LOOKED_AT = 500
_REFUSALS = ("reject", "send_back")


def is_checked_at_random(house: House, task: Task) -> bool:
    share = min(house.settings.review.seeded_percent * _TRUE_CHECKS, 50)
    return _lot_of(task, "check") < share


def seed_beside(
    house: House, conn: sa.Connection, at: datetime, playbook: Playbook, task: Task, review: dict[str, Any]
) -> None:
    """Now and then a known-bad draft of the same playbook is laid beside a true one."""
    if playbook.risk not in _SEEDED_RISKS or _lot_of(task, "seed") >= house.settings.review.seeded_percent:
        return
    bad = _known_bad(conn, task)
    if bad is not None:
        _lay_copy(conn, at, bad, review | {"why_here": RANDOM_CHECK, "doubt": 0.0})


@dataclass(frozen=True, slots=True)
class Caught:
    """How many seeded drafts somebody was shown, and how many of them they caught: for their own eyes."""

    shown: int
    caught: int


def caught_by(house: House, actor: str) -> Caught:
    answered = (
        sa.select(decisions.c.verb)
        .join(reviews, (reviews.c.task_id == decisions.c.task_id) & (reviews.c.version == decisions.c.version))
        .where(reviews.c.seeded, decisions.c.actor == actor, decisions.c.verb != "later")
    )
    with house.db.read() as conn:
        verbs = list(conn.scalars(answered))
    return Caught(len(verbs), sum(verb in _REFUSALS for verb in verbs))


def is_caught(verb: str) -> bool:
    return verb in _REFUSALS


def known_reason(conn: sa.Connection, copy_of: dict[str, Any]) -> str:
    """Why a person refused the draft that it is a copy of."""
    query = sa.select(decisions.c.reason, decisions.c.note).where(decisions.c.id == copy_of["decision"])
    row = conn.execute(query).one()
    return ": ".join(part for part in (row.reason, row.note) if part) or "it was refused before"


def _lot_of(task: Task, what: str) -> float:
    """A number from 0 to 100 that the task has drawn, the same each time."""
    drawn = digest(what, task["id"], str(task["version"]))[:8]
    return int(drawn, 16) / 16**8 * 100


def _known_bad(conn: sa.Connection, task: Task) -> Any:
    """One that was refused, of the same playbook and tenant, and is not on the desk as a copy already."""
    d = decisions.c
    last = (
        sa.select(d.id, d.task_id, d.version)
        .where(d.final, d.undone_at.is_(None), d.verb.in_(_REFUSALS), d.task_id != task["id"])
        .order_by(d.decided_at.desc())
        .limit(_LOOKED_AT)
        .subquery()
    )
    alike = (tasks.c.playbook == task["playbook"]) & (tasks.c.tenant == task["tenant"])
    draft = (drafts.c.task_id == last.c.task_id) & (drafts.c.version == last.c.version)
    query = (
        sa.select(tasks, drafts.c.payload, drafts.c.gates, drafts.c.hash, last.c.version.label("bad_version"))
        .add_columns(last.c.id.label("decision"))
        .join(last, last.c.task_id == tasks.c.id)
        .join(drafts, draft)
        .where(alike, drafts.c.passed)
    )
    found = [row for row in conn.execute(query).mappings() if not _is_copied(conn, row)]
    found.sort(key=lambda row: digest(row["id"], task["id"]))
    return found[0] if found else None


def _copy_id(bad: Any) -> str:
    return digest("seed", bad["id"], str(bad["bad_version"]))[:32]


def _is_copied(conn: sa.Connection, bad: Any) -> bool:
    return conn.execute(sa.select(tasks.c.id).where(tasks.c.id == _copy_id(bad))).first() is not None


def _lay_copy(conn: sa.Connection, at: datetime, bad: Any, review: dict[str, Any]) -> None:
    copy_id = _copy_id(bad)
    kept = ("playbook", "playbook_version", "tenant", "priority", "input", "cost_usd")
    task = {name: bad[name] for name in kept}
    task |= {"id": copy_id, "key": f"{bad['key'][:200]} ({copy_id[:8]})", "state": "review", "result": bad["payload"]}
    conn.execute(tasks.insert(), task | {"created_at": at, "updated_at": at})
    address = {"task_id": copy_id, "version": 1}
    draft = {name: bad[name] for name in ("payload", "hash", "gates")}
    conn.execute(drafts.insert(), address | draft | {"passed": True, "created_at": at})
    copy_of = {"task_id": bad["id"], "version": bad["bad_version"], "decision": bad["decision"]}
    row = review | address | {"hash": bad["hash"], "seeded": True, "copy_of": copy_of}
    conn.execute(reviews.insert(), row)
    record(
        conn, at, "state", cause="a draft is ready", actor="desk", task_id=copy_id, version=1,
        prior_state=None, state="review",
    )  # fmt: skip
