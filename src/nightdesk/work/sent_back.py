"""What a person said about the last draft when they sent it back: for the next version of the task."""

from dataclasses import dataclass

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.store import decisions, drafts
from nightdesk.work.states import Task


@dataclass(frozen=True, slots=True)
class SentBack:
    """Without a draft it was the task's question, or its failure, that a person had to look at."""

    reason: str
    note: str
    draft: Json

    @property
    def sentence(self) -> str:
        said = ": ".join(part for part in (self.reason, self.note) if part)
        return said or "no reason was given"


def sent_back(conn: sa.Connection, task: Task) -> SentBack | None:
    """None for a first version."""
    if task["version"] == 1:
        return None
    last = task["version"] - 1
    here = (decisions.c.task_id == task["id"]) & (decisions.c.version == last)
    stands = (decisions.c.verb == "send_back") & decisions.c.undone_at.is_(None)
    row = conn.execute(sa.select(decisions.c.reason, decisions.c.note).where(here, stands)).first()
    draft = sa.select(drafts.c.payload).where(drafts.c.task_id == task["id"], drafts.c.version == last)
    found = conn.execute(draft).scalar_one_or_none()
    return SentBack(row.reason or "", row.note or "", found) if row else None
