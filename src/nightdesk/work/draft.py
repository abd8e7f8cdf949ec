"""A draft: what a playbook made, and what its gates found. How gates look is not known here; they are handed in."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, canonical, digest, storable
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.store import Database, draft_marks, drafts
from nightdesk.work.desk import Desk
from nightdesk.work.states import Task

_MOST_EVIDENCE = 10
_LONGEST_EVIDENCE = 300


@dataclass(frozen=True)
class Verdict:
    """What a gate found: the value, what it is held against, and what a person would want to see of it."""

    passed: bool
    value: Json = None
    threshold: Json = None
    evidence: Sequence[str] = ()
    gate: str = ""
    field: str = ""

    def as_json(self) -> dict[str, Json]:
        shown = [storable(text[:_LONGEST_EVIDENCE]) for text in self.evidence[:_MOST_EVIDENCE]]
        return asdict(self) | {"evidence": shown}

    @property
    def sentence(self) -> str:
        """The finding as it is told to a person, or to the model that is to mend it."""
        where = f" of {self.field}" if self.field else ""
        held = f": {self.value}, where {self.threshold} is asked for" if self.threshold is not None else ""
        listed = "; ".join(storable(text[:_LONGEST_EVIDENCE]) for text in self.evidence[:_MOST_EVIDENCE])
        return f"{self.gate}{where}{held}{f' ({listed})' if listed else ''}"


@dataclass(frozen=True)
class Draft:
    """`marks` are what later drafts are held against, to tell whether they are the same again; `look_again` gives the
    verdicts that may have changed since, in the transaction that stores the draft."""

    payload: Json
    verdicts: Sequence[Verdict] = ()
    marks: frozenset[int] = frozenset()
    look_again: Callable[[sa.Connection, Sequence[Verdict]], Sequence[Verdict]] | None = None

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def failing(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.passed]

    @cached_property
    def hash(self) -> str:
        """What an approval is bound to."""
        return digest(canonical(self.payload))


Check = Callable[[Playbook, Any, Json, Desk], Awaitable[Draft]]  # (playbook, input, payload, desk)
# (transaction, house, task, draft or none if there is none to look at, why): lays it before a person
Lay = Callable[[sa.Connection, House, Task, Draft | None, str], None]


def store_draft(db: Database, conn: sa.Connection, at: datetime, task: Task, draft: Draft) -> Draft:
    """Keep the draft of this version of the task; the answer is the draft with its last verdicts."""
    if draft.look_again is not None:
        draft = replace(draft, verdicts=draft.look_again(conn, draft.verdicts))
    address = {"task_id": task["id"], "version": task["version"]}
    kept = {
        "payload": draft.payload,
        "hash": draft.hash,
        "gates": [verdict.as_json() for verdict in draft.verdicts],
        "passed": draft.passed,
        "created_at": at,
    }
    again = db.upsert(drafts).values(**address, **kept)
    conn.execute(again.on_conflict_do_update(index_elements=list(address), set_=kept))
    if draft.marks:
        rows = [{"mark": mark, **address} for mark in sorted(draft.marks)]
        conn.execute(db.upsert(draft_marks).on_conflict_do_nothing(), rows)
    return draft
