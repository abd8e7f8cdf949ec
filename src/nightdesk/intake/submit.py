"""The one door: check, identify, store and dispatch, in one transaction."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from nightdesk.canonical import Json, canonical, differing_paths, digest, storable
from nightdesk.errors import Conflict, DiskFull, Invalid, Untimely
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.store import tasks
from nightdesk.watch import events
from nightdesk.work.queue import dispatch_next
from nightdesk.work.states import Task, lock_task

LONGEST_NAME = 200
_LONGEST_URL = 2_000

# What keys and tenants are made of: no control characters, no invisible ones, of the blanks only the space. The
# ranges are spelt out, not named by category, so that the API's document can say the same to every language.
NAME = (
    "^[^\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+$"
)
_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class Submission:
    playbook: str
    input: Json
    key: str | None = None
    tenant: str = "main"
    priority: int | str | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    callback_url: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The task that the submission is, and whether it is a new one."""

    id: str
    state: str
    created: bool


def submit(house: House, submission: Submission, *, actor: str = "python") -> Receipt:
    """Store the task and dispatch it. The same submission again returns the same task and does nothing."""
    with house.db.write() as conn:
        return submit_in(house, conn, submission, actor=actor)


def submit_in(
    house: House,
    conn: sa.Connection,
    submission: Submission,
    *,
    actor: str,
    parent_id: str | None = None,
    hold: bool = False,
) -> Receipt:
    """The same in the caller's transaction: it commits with the caller's own rows or not at all.

    `parent_id` is the task that emits it; `hold` leaves the dispatch to the caller.
    """
    if house.disk.low():
        raise DiskFull("The disk is nearly full, so nothing more is accepted.", "Free some space and submit again.")
    playbook = house.registry.get(submission.playbook)
    row = _task_row(house, conn, playbook, submission) | {"parent_id": parent_id}
    insert = house.db.upsert(tasks).on_conflict_do_nothing().returning(tasks.c.id)
    if conn.execute(insert, row).scalar_one_or_none() is None:
        return _again(house, conn, playbook, row)
    events.record(
        conn, row["created_at"], "state", cause="submitted", actor=actor, task_id=row["id"], version=1, state="queued"
    )
    if not (hold or playbook.when.is_gathered):  # else the night, what comes before it, or what it waits for does
        _dispatch_first(house, conn, playbook, row, submission.not_before)
    return Receipt(row["id"], "queued", created=True)


def task_id(playbook: str, tenant: str, key: str) -> str:
    return digest(playbook, tenant, key)[:32]


def check(house: House, submission: Submission) -> Json:
    """The submission's input, normalised; Invalid if anything about the submission is wrong. Nothing is stored."""
    playbook = house.registry.get(submission.playbook)
    faults = _faults(submission)
    try:
        clean = playbook.check_input(submission.input)
    except Invalid as error:
        faults += [(f"input.{path}" if path else "input", fault) for path, fault in error.faults]
    if faults:
        raise Invalid(f"The submission to {playbook.name} is not valid", faults, "Mend these and submit again.")
    _check_in_time(submission, house.clock.now())
    return clean


def _task_row(house: House, conn: sa.Connection, playbook: Playbook, submission: Submission) -> dict[str, Any]:
    clean = check(house, submission)
    now = house.clock.now()
    key = submission.key or playbook.key_for(clean)
    if not _is_name(key, LONGEST_NAME * 5):
        raise Invalid("The submission is not valid", [("key", "is empty, too long, or has control characters")])
    expires_at = submission.expires_at
    if expires_at is None and playbook.ttl_seconds is not None:
        expires_at = _later(submission.not_before or now, playbook.ttl_seconds)
    return {
        "id": task_id(playbook.name, submission.tenant, key),
        "playbook": playbook.name,
        "playbook_version": playbook.version,
        "tenant": submission.tenant,
        "key": key,
        "state": "queued",
        "priority": playbook.priority if submission.priority is None else _priority(submission.priority),
        "input": clean,
        "created_at": now,
        "updated_at": now,
        "not_before": submission.not_before,
        "expires_at": expires_at,
        "callback_url": submission.callback_url,
    }


def _dispatch_first(
    house: House, conn: sa.Connection, playbook: Playbook, row: dict[str, Any], not_before: datetime | None
) -> None:
    delay = max(0.0, (not_before - row["created_at"]).total_seconds()) if not_before else 0.0
    if playbook.when.kind == "debounce":
        delay = max(delay, playbook.when.seconds)
    _dispatch(house, conn, row | {"leg": 0}, delay)


def _dispatch(house: House, conn: sa.Connection, task: Task, delay: float) -> None:
    columns = dispatch_next(house, conn, task, delay)
    conn.execute(tasks.update().where(tasks.c.id == task["id"]), columns)


def _again(house: House, conn: sa.Connection, playbook: Playbook, row: dict[str, Any]) -> Receipt:
    """The task is there already: the same input changes nothing, another one is refused."""
    known = lock_task(conn, row["id"])
    assert known is not None
    if canonical(known["input"]) == canonical(row["input"]):
        if _is_gathering(playbook, known):
            _dispatch(house, conn, known, playbook.when.seconds)
        return Receipt(known["id"], known["state"], created=False)
    if _is_gathering(playbook, known):
        conn.execute(tasks.update().where(tasks.c.id == known["id"]), {"input": row["input"]})
        _dispatch(house, conn, known, playbook.when.seconds)
        return Receipt(known["id"], known["state"], created=False)
    differs = differing_paths(known["input"], row["input"], "input")
    raise Conflict(
        f"Task {known['id']} has the key {known['key']!r} already, with another input; they differ at "
        f"{', '.join(differs)}.",
        "Give the new work a key of its own, or submit the first input.",
        differs,
    )


def _is_gathering(playbook: Playbook, task: Task) -> bool:
    """A debounced task takes the latest input until it starts; every submission begins its wait anew."""
    return playbook.when.kind == "debounce" and task["state"] == "queued" and task["dispatch"] == 0


def _faults(submission: Submission) -> list[tuple[str, str]]:
    faults = []
    if submission.key is not None and not _is_name(submission.key, LONGEST_NAME):
        faults.append(("key", f"must have 1 to {LONGEST_NAME} characters, none of them control characters"))
    if not _is_name(submission.tenant, LONGEST_NAME):
        faults.append(("tenant", f"must have 1 to {LONGEST_NAME} characters, none of them control characters"))
    if submission.priority not in (None, 0, 1, 2, 3, "P0", "P1", "P2", "P3"):
        faults.append(("priority", "must be P0, P1, P2 or P3"))
    faults += _time_faults(submission.not_before, submission.expires_at)
    if submission.callback_url is not None and not _is_web_address(submission.callback_url):
        faults.append(("callback_url", f"must be an http or https address of at most {_LONGEST_URL} characters"))
    return faults


def _time_faults(not_before: datetime | None, expires_at: datetime | None) -> list[tuple[str, str]]:
    stated = {"not_before": not_before, "expires_at": expires_at}
    return [
        (name, "must have a time zone, as in 2026-01-31T01:00:00Z")
        for name, moment in stated.items()
        if moment is not None and moment.tzinfo is None
    ]


def _later(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:  # the end of the calendar comes first
        return datetime.max.replace(tzinfo=UTC)


def _check_in_time(submission: Submission, now: datetime) -> None:
    opens = max(now, submission.not_before or now)
    if submission.expires_at is not None and submission.expires_at <= opens:
        fault = ("expires_at", "must be later than now and than not_before")
        raise Untimely("The task would have expired before it could start", [fault], "Give it a later time, or none.")


def _is_name(text: str, longest: int) -> bool:
    return len(text) <= longest and bool(_NAME.fullmatch(text)) and text == storable(text)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        return False
    good = parts.scheme in ("http", "https") and bool(parts.hostname) and port_is_good
    return good and len(text) <= _LONGEST_URL and text.isprintable() and " " not in text


def _priority(stated: int | str) -> int:
    return int(stated[1:]) if isinstance(stated, str) else stated
