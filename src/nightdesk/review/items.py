"""A draft on the desk, read with all that a decision about it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import NotFound
from nightdesk.review.laying import hash_of
from nightdesk.store import decisions, drafts, reviews, tasks
from nightdesk.work.states import Task, lock_task

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Item:
    """`review` is the newest row of the desk for the task; `history` has all that was decided, oldest first."""

    task: Task
    review: Row
    draft: Row | None
    history: Sequence[Row]

    @property
    def id(self) -> str:
        return str(self.task["id"])

    @property
    def payload(self) -> Json:
        return self.draft["payload"] if self.draft else None

    @property
    def hash(self) -> str:
        """Of what is there, whatever else is said of it."""
        return hash_of(self.payload)

    @property
    def is_open(self) -> bool:
        return bool(self.task["state"] == "review" and self.task["version"] == self.review["version"])

    def decision(self, name: str) -> Row:
        return next(row for row in self.history if row["id"] == name)

    @property
    def standing(self) -> Row | None:
        """The last decision that nobody has undone."""
        return next((row for row in reversed(self.history) if row["undone_at"] is None), None)

    @property
    def approvals(self) -> list[Row]:
        """Those of exactly what is there now."""
        here = [row for row in self.history if row["version"] == self.review["version"] and row["undone_at"] is None]
        return [row for row in here if row["verb"] == "approve" and row["hash"] == self.review["hash"]]


def read_item(conn: sa.Connection, task_id: str, tenant: str | None = None, *, lock: bool = False) -> Item:
    """NotFound: there is no such task, or it never was on the desk, or it is another tenant's."""
    task = lock_task(conn, task_id) if lock else _task(conn, task_id)
    review = _review(conn, task_id) if task is not None and tenant in (None, task["tenant"]) else None
    if task is None or review is None:
        raise NotFound(f"There is nothing on the desk by the name of {task_id}.", "See: nightdesk review list")
    draft = sa.select(drafts).where(drafts.c.task_id == task_id, drafts.c.version == review["version"])
    about = decisions.c.item.is_(None) & (decisions.c.task_id == task_id)
    return Item(
        task,
        review,
        conn.execute(draft).mappings().one_or_none(),
        conn.execute(sa.select(decisions).where(about).order_by(decisions.c.id)).mappings().all(),
    )


def names(row: Row, hash_: str) -> bool:
    """Whether somebody who has seen this hash has seen what the decision was about."""
    return hash_ in (row["hash"], (row["before"] or {}).get("hash"))


def _task(conn: sa.Connection, task_id: str) -> Task | None:
    return conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one_or_none()


def _review(conn: sa.Connection, task_id: str) -> Row | None:
    newest = sa.select(reviews).where(reviews.c.task_id == task_id).order_by(reviews.c.version.desc()).limit(1)
    return conn.execute(newest).mappings().one_or_none()
