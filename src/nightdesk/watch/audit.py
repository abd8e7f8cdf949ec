"""The audit chain: each event's seal is a hash over the event and the seal before it.

Writers add events freely; a sealer chains them afterwards, so that writers never wait for each other. The order of
sealing is the order of the chain; ids may have gaps. The chain's head is also kept in a file outside the database:
an edit, a deletion or an insertion shows in the chain itself, a cut or rewritten chain shows against that file.

What it cannot tell: a forged event added before the next sealing is sealed like a true one, and events that were
removed before they were sealed are not missed. Whoever can write both the database and the file can do anything.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import canonical
from nightdesk.clock import Clock
from nightdesk.errors import NightdeskError
from nightdesk.store import Database, events, is_outage
from nightdesk.watch.logs import get_logger

_CHUNK = 10_000

log = get_logger(__name__)


@dataclass(frozen=True)
class Head:
    """The newest sealed event: its place in the chain, its seal, and when it was sealed."""

    seq: int
    seal: str
    at: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a check of the chain found.

    `first_bad` is the place in the chain where it first fails, `event_id` the event found there, `rows` how many were
    right up to there. Without a `head` (no file) the chain was checked in itself only: a cut would not show.
    """

    ok: bool
    rows: int
    unsealed: int
    head: Head | None
    first_bad: int | None = None
    event_id: int | None = None
    problem: str | None = None


class _Broken(Exception):
    """The chain fails at `seq`."""

    def __init__(self, seq: int, event_id: int | None, problem: str) -> None:
        super().__init__(problem)
        self.seq, self.event_id, self.problem = seq, event_id, problem


_GENESIS = Head(0, "")


def seal(db: Database, clock: Clock, head_file: Path, limit: int = 5000) -> int:
    """Chain up to `limit` new events and move the head file on; say how many were chained.

    0 when there are none, or when another process is sealing. A chain that no longer contains its own head is left
    as it is, and so is the head file: that is a NightdeskError.
    """
    kept = read_head(head_file)
    with db.write() as conn:
        if not db.try_lock(conn, "nightdesk-seal"):
            return 0
        last = _last(conn)
        _require_kept(conn, kept, head_file)
        rows = conn.execute(_reading(db).where(events.c.seal_seq.is_(None)).order_by(events.c.id).limit(limit)).all()
        marks, head = _chained(rows, last)
        if marks:
            place = events.update().where(events.c.id == sa.bindparam("event"), events.c.seal_seq.is_(None))
            conn.execute(place.values(seal_seq=sa.bindparam("seq"), seal=sa.bindparam("hash")), marks)
    if head.seq > (kept or _GENESIS).seq:
        _write_head(head_file, Head(head.seq, head.seal, clock.now().isoformat()))
    return len(marks)


def verify(db: Database, head_file: Path, progress: Callable[[int], None] | None = None) -> Verdict:
    """Recompute the whole chain and hold it against the head file. `progress` is told the rows done so far."""
    head = read_head(head_file)
    good = _GENESIS
    try:
        for row in _sealed_rows(db):
            good = _checked(good, row, head)
            if progress and good.seq % _CHUNK == 0:
                progress(good.seq)
        if head and good.seq < head.seq:
            raise _Broken(good.seq + 1, None, f"the chain was cut: it ends at row {good.seq}, its head is {head.seq}")
    except _Broken as broken:
        return Verdict(False, good.seq, _unsealed(db), head, broken.seq, broken.event_id, broken.problem)
    return Verdict(True, good.seq, _unsealed(db), head)


def read_head(head_file: Path) -> Head | None:
    """The head kept outside the database; None when there is no file."""
    try:
        stored = json.loads(head_file.read_text(encoding="utf-8"))
        return Head(int(stored["seq"]), str(stored["seal"]), str(stored["at"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise NightdeskError(
            f"{head_file.name} is not a head of the audit chain.", "Put a copy of the true one back in its place."
        ) from None


def _reading(db: Database) -> sa.Select[Any]:
    """What a seal covers, as the database stores it: parsing `at` or `detail` could hide a change of the text."""
    moment = (
        sa.type_coerce(events.c.at, sa.Text)
        if db.is_sqlite
        else sa.func.to_char(sa.func.timezone("UTC", events.c.at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    )
    plain = (events.c[name] for name in ("kind", "task_id", "version", "prior_state", "state", "cause", "actor"))
    return sa.select(events.c.id, moment, *plain, sa.cast(events.c.detail, sa.Text), events.c.seal_seq, events.c.seal)


def _sealed_rows(db: Database) -> Iterator[sa.Row[Any]]:
    """In the order of the chain, a chunk to a transaction: a long one would hold up SQLite's writers."""
    query = _reading(db).order_by(events.c.seal_seq).limit(_CHUNK)
    reached: int | None = None
    while True:
        after = events.c.seal_seq.is_not(None) if reached is None else events.c.seal_seq > reached
        try:
            with db.read() as conn:
                rows = conn.execute(query.where(after)).all()
        except sa.exc.DBAPIError as error:
            if is_outage(error):
                raise
            start = (reached or 0) + 1
            raise _Broken(start, None, f"a row from {start} on cannot be read: {error.orig}") from None
        yield from rows
        if len(rows) < _CHUNK:
            return
        reached = rows[-1].seal_seq


def _checked(good: Head, row: sa.Row[Any], head: Head | None) -> Head:
    try:
        return _follow(good, row, head)
    except (TypeError, ValueError):  # a value of a kind that the column never holds
        raise _Broken(good.seq + 1, row.id, f"event {row.id} (row {good.seq + 1}) was changed") from None


def _follow(good: Head, row: sa.Row[Any], head: Head | None) -> Head:
    """The chain's head after this row, if the row rightly follows."""
    content: tuple[Any, ...] = tuple(row[:-2])
    seq, found = row.seal_seq, row.seal
    event_id, expected = content[0], good.seq + 1
    if seq != expected:
        wrong = f"row {expected} is missing" if seq > expected else f"row {seq} was inserted"
        raise _Broken(expected, event_id, f"{wrong}; event {event_id} stands there as row {seq}")
    if found != _seal_of(good.seal, seq, content):
        raise _Broken(seq, event_id, f"event {event_id} (row {seq}) was changed, swapped or inserted")
    if head and seq == head.seq and found != head.seal:
        raise _Broken(seq, event_id, f"the chain was rewritten: event {event_id} (row {seq}) is not the kept head")
    return Head(seq, found)


def _chained(rows: Sequence[sa.Row[Any]], last: Head) -> tuple[list[dict[str, Any]], Head]:
    marks = []
    for row in rows:
        last = Head(last.seq + 1, _seal_of(last.seal, last.seq + 1, tuple(row[:-2])))
        marks.append({"event": row.id, "seq": last.seq, "hash": last.seal})
    return marks, last


def _seal_of(before: str, seq: int, content: tuple[Any, ...]) -> str:
    return hashlib.sha256(f"{before}\n{canonical([seq, *content])}".encode("ascii")).hexdigest()


def _last(conn: sa.Connection) -> Head:
    newest = sa.select(events.c.seal_seq, events.c.seal).where(events.c.seal_seq.is_not(None))
    row = conn.execute(newest.order_by(events.c.seal_seq.desc()).limit(1)).first()
    return Head(*row) if row else _GENESIS


def _require_kept(conn: sa.Connection, kept: Head | None, head_file: Path) -> None:
    if kept is None or kept.seq == 0:
        return
    found = conn.execute(sa.select(events.c.seal).where(events.c.seal_seq == kept.seq)).scalar()
    if found != kept.seal:
        log.error("The audit chain no longer contains its own head.", action="audit_broken", **asdict(kept))
        raise NightdeskError(
            "The audit chain no longer contains its own head; nothing more is sealed.",
            f"Run: nightdesk audit verify. If you restored a backup, put {head_file.name} aside and keep it.",
        )


def _unsealed(db: Database) -> int:
    with db.read() as conn:
        return conn.execute(sa.select(sa.func.count()).where(events.c.seal_seq.is_(None))).scalar_one()


def _write_head(head_file: Path, head: Head) -> None:
    """Whole or not at all, and on disk. Another sealer may have been here with a newer head: keep that one."""
    present = read_head(head_file)
    if present and present.seq >= head.seq:
        return
    aside = head_file.with_name(f"{head_file.name}.{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as out:
        out.write(canonical(asdict(head)))
        out.flush()
        os.fsync(out.fileno())
    aside.replace(head_file)
