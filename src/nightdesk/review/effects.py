"""What each verb does to a draft that is on the desk and is what its reviewer has seen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, storable
from nightdesk.errors import Conflict, Invalid
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.review.asked import Asked
from nightdesk.review.edits import diff, edited, looked_at_again
from nightdesk.review.items import Item
from nightdesk.review.laying import hash_of
from nightdesk.review.lots import cancel_lot
from nightdesk.review.minutes import is_quick
from nightdesk.review.moments import next_morning
from nightdesk.review.safety import settles
from nightdesk.store import decisions, drafts, notices, reviews, tasks
from nightdesk.watch.events import record
from nightdesk.work.queue import dispatch_next
from nightdesk.work.states import Task, move

# (transaction, house, task, row of drafts): takes what was approved further.
Stage = Callable[[sa.Connection, House, Task, Mapping[Any, Any]], None]
# Work that is not the night's begins its next version after this; nobody is told of a rejection earlier.
UNDO_SECONDS = 90.0


def leave_approved(conn: sa.Connection, house: House, task: Task, draft: Mapping[Any, Any]) -> None:
    """What is approved stays so: taking it further is for the rooms above, which hand in their own function."""


@dataclass(frozen=True)
class Case:
    """One decision in the making."""

    house: House
    conn: sa.Connection
    asked: Asked
    item: Item
    at: datetime
    stage: Stage

    @property
    def opened_at(self) -> datetime | None:
        """When the actor began to look: as they say, if that can be, else as the desk has noted."""
        said, review = self.asked.opened_at, self.item.review
        if said is not None:
            return said if review["created_at"] <= said <= self.at else None
        opened: datetime | None = review["opened_at"] if review["opened_by"] == self.asked.actor.name else None
        return opened

    def playbook(self) -> Playbook:
        name = self.item.task["playbook"]
        if name not in self.house.registry:
            raise Conflict(f"Playbook {name} is gone, and this needs it.", "Restore it, or reject the draft.")
        return self.house.registry.get(name)

    def decision(self, *, final: bool, hash_: str | None = None, before: Json = None, diff: Json = None) -> str:
        """Write it down; the answer is its id."""
        asked, actor, draft = self.asked, self.asked.actor, self.item.draft
        found = f"{self.item.id}#{len(self.item.history) + 1:04}"
        row = {
            "id": found,
            "task_id": self.item.id,
            "version": self.item.review["version"],
            "hash": hash_ or self.item.hash,
            "verb": asked.verb,
            "final": final,
            "actor": actor.name,
            "channel": actor.channel,
            "assurance": actor.assurance,
            "reason": _kept(asked.reason),
            "note": _kept(asked.note),
            "edits": dict(asked.edits) if asked.verb == "edit" and asked.edits else None,
            "diff": diff,
            "before": before,
            "gates": draft["gates"] if draft else None,
            "quick": asked.verb != "later" and is_quick(self.item.payload, self.opened_at, self.at),
            "opened_at": self.opened_at,
            "decided_at": self.at,
        }
        self.conn.execute(decisions.insert(), row)
        return found

    def move(self, to: str, cause: str, decision: str, **columns: Any) -> None:
        """The task leaves the desk, or comes back to it."""
        actor = self.asked.actor.name
        detail = self.told(decision)
        move(self.conn, self.at, self.item.task, to, cause=cause, actor=actor, detail=detail, **columns)
        self.note(leased_by=None, leased_until=None)

    def tell(self, cause: str, decision: str) -> None:
        """An event for what leaves the task where it is."""
        record(
            self.conn, self.at, "review", cause=cause, actor=self.asked.actor.name, task_id=self.item.id,
            version=self.item.review["version"], state=self.asked.verb, detail=self.told(decision),
        )  # fmt: skip

    def told(self, decision: str) -> dict[str, Json]:
        actor = self.asked.actor
        told = {"decision": decision, "verb": self.asked.verb, "hash": self.asked.hash}
        return told | {"channel": actor.channel, "assurance": actor.assurance}

    def note(self, **columns: Any) -> None:
        """Change the row of the desk."""
        review = self.item.review
        here = (reviews.c.task_id == self.item.id) & (reviews.c.version == review["version"])
        self.conn.execute(reviews.update().where(here), columns)

    def said(self, verb: str) -> str:
        """What is told of it in one line."""
        return ": ".join(part for part in (verb, _kept(self.asked.reason), _kept(self.asked.note)) if part)


def approve(case: Case) -> str:
    item = case.item
    if item.draft is None:
        raise Invalid(
            "There is nothing to approve", [("verb", "is for drafts")], "Send it back, write it, or reject it."
        )
    if item.review["seeded"]:
        return _answer_seeded(case)
    if not settles(case.house, case.conn, item, case.asked, case.at):
        decision = case.decision(final=False)
        case.tell("approved for the first time", decision)
        return decision
    decision = case.decision(final=True)
    alone = item.approvals and {row["actor"] for row in item.approvals} == {case.asked.actor.name}
    case.move("approved", "approved alone, after a cool-down" if alone else "approved", decision)
    case.stage(case.conn, case.house, item.task, item.draft)
    return decision


def edit(case: Case) -> str:
    """With what cannot be taken back it only changes the draft, which others have to approve then."""
    item, playbook = case.item, case.playbook()
    payload = edited(playbook, item.payload, case.asked.edits)
    changed = diff(item.payload, payload)
    if item.review["seeded"]:
        return _answer_seeded(case, changed)
    final = item.review["risk"] != "irreversible"
    hash_ = hash_of(payload)
    decision = case.decision(final=final, hash_=hash_, before=_before(item), diff=changed)
    draft = _put(case, playbook, payload, hash_)
    columns = {"result": payload, "error": None}
    if final:
        _doubt_lot(case)
        case.move("approved", "approved with edits", decision, **columns)
        case.stage(case.conn, case.house, item.task, draft)
    else:
        case.conn.execute(tasks.update().where(tasks.c.id == item.id), columns)
        case.tell("edited", decision)
    return decision


def send_back(case: Case) -> str:
    """The next version, for the next night; of work that is not the night's, in a moment."""
    _require_reason(case)
    if case.item.review["seeded"]:
        return _answer_seeded(case)
    playbook, task = case.playbook(), case.item.task
    kept = ("error", "playbook_version", "failures", "worked_ms")
    decision = case.decision(final=True, before={name: task[name] for name in kept})
    _doubt_lot(case)
    columns = next_version(case.house, case.conn, task, playbook)
    case.move("queued", case.said("sent back"), decision, **columns)
    return decision


def reject(case: Case) -> str:
    if case.item.review["seeded"]:
        return _answer_seeded(case)
    decision = case.decision(final=True)
    _doubt_lot(case)
    case.move("rejected", case.said("rejected"), decision)
    # Nobody outside is told before it can no longer be undone with one key.
    untold = (notices.c.delivered_at.is_(None)) & (notices.c.next_at == case.at) & (notices.c.task_id == case.item.id)
    later = case.at + timedelta(seconds=UNDO_SECONDS)
    case.conn.execute(notices.update().where(untold), {"next_at": later})
    return decision


def later(case: Case) -> str:
    """Behind everything else of today, or out of sight until a moment."""
    review, night = case.item.review, case.house.settings.night
    until = _until(case.asked.reason, case.at, next_morning(night, case.at))
    before = {name: _text(review[name]) for name in ("later_until", "put_back_at")}
    decision = case.decision(final=False, before=before)
    case.note(later_until=until, put_back_at=None if until else case.at, leased_by=None, leased_until=None)
    case.tell(f"put off until {until.isoformat(timespec='minutes')}" if until else "put behind the others", decision)
    return decision


EFFECTS: dict[str, Callable[[Case], str]] = {
    "approve": approve,
    "edit": edit,
    "send_back": send_back,
    "reject": reject,
    "later": later,
}


def next_version(house: House, conn: sa.Connection, task: Task, playbook: Playbook) -> dict[str, Any]:
    """The columns of a task that goes back to the queue. Work of the night waits there to be planned."""
    columns = {"version": task["version"] + 1, "result": None, "error": None}
    columns |= {"strikes": 0, "failures": 0, "worked_ms": 0}
    if not playbook.when.is_nightly and task["until"] is None:
        columns |= dispatch_next(house, conn, task, UNDO_SECONDS)
    return columns


def _put(case: Case, playbook: Playbook, payload: Json, hash_: str) -> dict[str, Any]:
    """Lay the edited draft where the other lay, with what the gates find now."""
    draft, order = case.item.draft, case.item.task["input"]
    verdicts = looked_at_again(playbook, order, payload, draft["gates"] if draft else [])
    values = {
        "payload": payload,
        "hash": hash_,
        "gates": [verdict.as_json() for verdict in verdicts],
        "passed": all(verdict.passed for verdict in verdicts),
    }
    address = {"task_id": case.item.id, "version": case.item.review["version"]}
    put = case.house.db.upsert(drafts).values(**address, **values, created_at=case.at)
    case.conn.execute(put.on_conflict_do_update(index_elements=list(address), set_=values))
    case.note(hash=hash_)
    return address | values


def _before(item: Item) -> dict[str, Json]:
    kept = {"hash": item.hash, "error": item.task["error"]}
    return kept | ({name: item.draft[name] for name in ("payload", "gates", "passed")} if item.draft else {})


def _answer_seeded(case: Case, changed: Json = None) -> str:
    """Whatever was said of it: it ends here, and is nobody's figure."""
    decision = case.decision(final=False, diff=changed)
    case.move("rejected", "a random check: the draft was known to be bad", decision)
    return decision


def _doubt_lot(case: Case) -> None:
    """One bad draft in a lot, and the rest of it is no longer approved unread."""
    if case.item.review["lot"] is not None:
        cancel_lot(case.conn, case.at, case.item.review["lot"])


def _require_reason(case: Case) -> None:
    if not (case.asked.reason or case.asked.note or "").strip():
        fault = ("reason", "is missing, and so is the note")
        raise Invalid(
            "Nobody could tell what to mend", [fault], "Say why it goes back; it is given to the next version."
        )


def _until(reason: str | None, at: datetime, tomorrow: datetime) -> datetime | None:
    if reason in (None, "", "end"):
        return None
    if reason == "tomorrow":
        return tomorrow
    try:
        moment = datetime.fromisoformat(str(reason))
        if moment.tzinfo is not None and moment > at:
            return moment
    except ValueError:
        pass
    fault = ("reason", "must be end, tomorrow, or a moment to come with its zone, like 2030-01-31T22:00:00Z")
    raise Invalid("It cannot be put off until then", [fault], "Say until when.")


def _kept(text: str | None) -> str | None:
    return storable(text.strip()) or None if text else None


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
