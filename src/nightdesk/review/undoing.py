"""Taking a decision back while nothing has come of it: the draft lies on the desk again, as it lay there."""

from datetime import datetime
from typing import Any

from nightdesk.errors import Conflict
from nightdesk.review.asked import Decided
from nightdesk.review.effects import Case
from nightdesk.review.items import Row, names
from nightdesk.review.outcomes import can_undo, outcome_of
from nightdesk.store import decisions, drafts, notices, releases, tasks


def undo(case: Case) -> str:
    """The last decision that stands; its id is the answer."""
    row = case.item.standing
    if row is None or not names(row, case.asked.hash):
        raise Decided(outcome_of(case.house, case.conn, case.item, row), "There is no such decision to undo.")
    if not can_undo(case.item, row):
        raise Decided(outcome_of(case.house, case.conn, case.item, row), _too_late(case, row))
    _UNDO[row["verb"]](case, row)
    values = {"undone_at": case.at, "undone_by": case.asked.actor.name}
    case.conn.execute(decisions.update().where(decisions.c.id == row["id"]), values)
    return str(row["id"])


def _too_late(case: Case, row: Row) -> str:
    if case.item.review["seeded"]:
        return "That was a check; its answer stands."
    if row["verb"] == "send_back":
        return "Its next version is under way."
    return f"It is {case.item.task['state']}, and what has left the house is taken back there: nightdesk release undo"


def _approve(case: Case, row: Row) -> None:
    if row["final"]:
        _void_releases(case)
        _back(case, row)
    else:
        case.tell("the approval was undone", row["id"])


def _edit(case: Case, row: Row) -> None:
    before = row["before"]
    here = (drafts.c.task_id == case.item.id) & (drafts.c.version == row["version"])
    if "payload" in before:
        kept = {name: before[name] for name in ("payload", "hash", "gates", "passed")}
        case.conn.execute(drafts.update().where(here), kept)
    else:
        case.conn.execute(drafts.delete().where(here))
    case.note(hash=before["hash"])
    columns = {"result": before.get("payload"), "error": before["error"]}
    if row["final"]:
        _void_releases(case)
        _back(case, row, **columns)
    else:
        case.conn.execute(tasks.update().where(tasks.c.id == case.item.id), columns)
        case.tell("the edit was undone", row["id"])


def _send_back(case: Case, row: Row) -> None:
    """A leg of the next version that is on the queue already is stale from here on."""
    columns = {"version": row["version"], "result": case.item.payload, "leg": case.item.task["leg"] + 1}
    _back(case, row, **columns, **row["before"])


def _reject(case: Case, row: Row) -> None:
    if case.item.task["callback_url"] is not None:
        untold = notices.c.delivered_at.is_(None) & (notices.c.attempts == 0) & (notices.c.task_id == case.item.id)
        if not case.conn.execute(notices.delete().where(untold)).rowcount:
            raise Conflict("Its end was told outside already.", "Submit it again, with a key of its own.")
    _back(case, row)


def _later(case: Case, row: Row) -> None:
    case.note(**{name: _moment(text) for name, text in row["before"].items()})
    case.tell("brought back", row["id"])


_UNDO = {"approve": _approve, "edit": _edit, "send_back": _send_back, "reject": _reject, "later": _later}


def _back(case: Case, row: Row, **columns: Any) -> None:
    case.move("review", f"undone: {row['verb'].replace('_', ' ')} by {row['actor']}", row["id"], **columns)


def _void_releases(case: Case) -> None:
    """What was about to leave does not; none is being written, for then the task would be `releasing`."""
    staged = (releases.c.task_id == case.item.id) & releases.c.state.in_(("waiting", "held"))
    values = {"state": "voided", "next_at": None, "ended_at": case.at}
    case.conn.execute(releases.update().where(staged), values)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
