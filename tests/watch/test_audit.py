"""The audit chain: whatever is done to sealed events shows, and the first bad one is named."""

import json
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from nightdesk.canonical import Json
from nightdesk.clock import SetClock
from nightdesk.errors import NightdeskError
from nightdesk.store import Database, events, open_database
from nightdesk.watch import audit
from nightdesk.watch.audit import Verdict, read_head, seal, verify
from nightdesk.watch.events import record

_ROWS = 9


@pytest.fixture
def head_file(tmp_path: Path) -> Path:
    return tmp_path / "audit.head"


def _record(db: Database, clock: SetClock, count: int = _ROWS, detail: Json = None) -> None:
    with db.write() as conn:
        for number in range(count):
            clock.advance(0.001)
            record(
                conn,
                clock.now(),
                "state",
                cause=f"cause {number}",
                actor="worker:e1",
                task_id="t1",
                version=1,
                prior_state="queued",
                state="working",
                detail=detail or {"n": number, "cost": 0.1},
            )


def _sealed(db: Database, clock: SetClock, head_file: Path) -> None:
    _record(db, clock)
    assert seal(db, clock, head_file) == _ROWS


def _disarm(db: Database) -> None:
    """Drop the triggers, as one who may write anything in the database would."""
    on = "" if db.is_sqlite else " ON events"
    names = ("events_no_delete", "events_no_update") if db.is_sqlite else ("events_append_only", "events_no_truncate")
    _run(db, *(f"DROP TRIGGER {name}{on}" for name in names))


def _run(db: Database, *statements: str) -> None:
    with db.write() as conn:
        for statement in statements:
            conn.exec_driver_sql(statement)


def test_new_events_are_sealed_in_order(db: Database, clock: SetClock, head_file: Path) -> None:
    _record(db, clock)
    assert seal(db, clock, head_file, limit=5) == 5
    assert seal(db, clock, head_file, limit=5) == _ROWS - 5
    assert seal(db, clock, head_file, limit=5) == 0
    with db.read() as conn:
        order = conn.execute(sa.select(events.c.seal_seq).order_by(events.c.id)).scalars().all()
    assert list(order) == list(range(1, _ROWS + 1))
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.rows, verdict.unsealed) == (True, _ROWS, 0)


def test_the_head_is_kept_for_its_owner_alone(db: Database, clock: SetClock, head_file: Path) -> None:
    _sealed(db, clock, head_file)
    with db.read() as conn:
        last = conn.execute(sa.select(events.c.seal).where(events.c.seal_seq == _ROWS)).scalar_one()
    assert json.loads(head_file.read_text()) == {"seq": _ROWS, "seal": last, "at": clock.now().isoformat()}
    assert stat.S_IMODE(head_file.stat().st_mode) == 0o600
    assert [file.name for file in head_file.parent.glob("audit.head*")] == ["audit.head"]


def test_unsealed_events_are_counted_and_not_bad(db: Database, clock: SetClock, head_file: Path) -> None:
    assert verify(db, head_file) == Verdict(ok=True, rows=0, unsealed=0, head=None)
    _sealed(db, clock, head_file)
    _record(db, clock, 3)
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.rows, verdict.unsealed) == (True, _ROWS, 3)


def test_ids_may_have_gaps(db: Database, clock: SetClock, head_file: Path) -> None:
    for number in range(3):
        with db.engine.connect() as conn:
            record(conn, clock.now(), "trial", cause=f"rolled back {number}", actor="test")
            conn.rollback()
        _record(db, clock, 2)
        assert seal(db, clock, head_file) == 2
    assert verify(db, head_file).rows == 6


@pytest.mark.parametrize(
    "detail",
    [
        {"floats": [0.1, 1e22, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, 2.0], "big": 2**80},
        {"text": 'Käse \u2028 \U0001f9c0 "\\ \x00 \x7f', "": None, "deep": [[[{}]]]},
        [],
        "text",
        0,
        False,
    ],
)
def test_every_kind_of_detail_reads_back_the_same(db: Database, clock: SetClock, head_file: Path, detail: Json) -> None:
    _record(db, clock, 2, detail)
    assert seal(db, clock, head_file) == 2
    assert verify(db, head_file).ok


def test_many_sealers_make_one_chain(db: Database, clock: SetClock, head_file: Path) -> None:
    _record(db, clock, 60)
    barrier = threading.Barrier(4)

    def sealer(_: int) -> int:
        barrier.wait()
        return sum(seal(db, clock, head_file, limit=5) for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(sealer, range(4)))
    while more := seal(db, clock, head_file):
        done += more
    assert done == 60
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.rows) == (True, 60)
    assert verdict.head is not None
    assert verdict.head.seq == 60


def test_a_sealer_leaves_when_another_is_at_it(postgres_url: str, clock: SetClock, head_file: Path) -> None:
    db = open_database(postgres_url)
    _record(db, clock)
    with db.write() as conn:
        assert db.try_lock(conn, "nightdesk-seal")
        assert seal(db, clock, head_file) == 0
    assert seal(db, clock, head_file) == _ROWS
    db.close()


def test_a_head_left_behind_by_a_crash_moves_on(db: Database, clock: SetClock, head_file: Path) -> None:
    _sealed(db, clock, head_file)
    before = head_file.read_bytes()
    _record(db, clock)
    assert seal(db, clock, head_file) == _ROWS
    head_file.write_bytes(before)  # as if the process had died between the commit and the file
    assert verify(db, head_file).ok
    assert seal(db, clock, head_file) == 0
    head = read_head(head_file)
    assert head is not None
    assert head.seq == 2 * _ROWS


def test_without_a_head_the_chain_alone_is_checked(db: Database, clock: SetClock, head_file: Path) -> None:
    _sealed(db, clock, head_file)
    head_file.unlink()
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.rows, verdict.head) == (True, _ROWS, None)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seq": "x", "seal": "", "at": ""}', "\xff"])
def test_a_damaged_head_file_is_refused(db: Database, clock: SetClock, head_file: Path, content: str) -> None:
    _sealed(db, clock, head_file)
    head_file.write_text(content, encoding="latin-1")
    for action in (lambda: verify(db, head_file), lambda: seal(db, clock, head_file)):
        with pytest.raises(NightdeskError, match=r"audit\.head is not a head"):
            action()


def _edit(column: str, value: str) -> str:
    return f"UPDATE events SET {column} = {value} WHERE seal_seq = 5"


_BAD_FROM_FIVE = {
    "moment": [_edit("at", "'2026-03-01T22:00:00.000000Z'")],
    "kind": [_edit("kind", "'forged'")],
    "task": [_edit("task_id", "NULL")],
    "version": [_edit("version", "2")],
    "prior state": [_edit("prior_state", "'done'")],
    "state": [_edit("state", "'done'")],
    "cause": [_edit("cause", "'forged'")],
    "actor": [_edit("actor", "'forged'")],
    "detail": [_edit("detail", """'{"n":4,"cost":0.2}'""")],
    "layout of the detail": [_edit("detail", """'{"n": 4, "cost": 0.10}'""")],
    "id": [_edit("id", "1000")],
    "seal": [_edit("seal", "'" + "0" * 64 + "'")],
    "deletion": ["DELETE FROM events WHERE seal_seq = 5"],
    "deletion, closed up": [
        "DELETE FROM events WHERE seal_seq = 5",
        *(f"UPDATE events SET seal_seq = {n - 1} WHERE seal_seq = {n}" for n in range(6, _ROWS + 1)),
    ],
    "unsealing": ["UPDATE events SET seal_seq = NULL, seal = NULL WHERE seal_seq = 5"],
    "swapped places": [
        "UPDATE events SET seal_seq = 1000 WHERE seal_seq = 5",
        "UPDATE events SET seal_seq = 5 WHERE seal_seq = 7",
        "UPDATE events SET seal_seq = 7 WHERE seal_seq = 1000",
    ],
    "swapped causes": [
        "UPDATE events SET cause = CASE seal_seq WHEN 5 THEN 'cause 6' ELSE 'cause 4' END WHERE seal_seq IN (5, 7)"
    ],
    "insertion": [
        *(f"UPDATE events SET seal_seq = {n + 1} WHERE seal_seq = {n}" for n in range(_ROWS, 4, -1)),
        "INSERT INTO events (at, kind, cause, actor, seal_seq, seal)"
        " SELECT at, kind, cause, actor, 5, seal FROM events WHERE seal_seq = 4",
    ],
}


@pytest.mark.parametrize("tampering", _BAD_FROM_FIVE.values(), ids=_BAD_FROM_FIVE.keys())
def test_tampering_is_found_and_named(db: Database, clock: SetClock, head_file: Path, tampering: list[str]) -> None:
    _sealed(db, clock, head_file)
    _disarm(db)
    _run(db, *tampering)
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.rows, verdict.first_bad) == (False, 4, 5)
    with db.read() as conn:
        there = sa.select(events.c.id).where(events.c.seal_seq >= 5).order_by(events.c.seal_seq).limit(1)
        assert verdict.event_id == conn.execute(there).scalar_one()
    assert verdict.problem is not None
    assert f"event {verdict.event_id}" in verdict.problem


@pytest.mark.parametrize("seq", ["0", "-1"])
def test_a_row_before_the_first_is_found(db: Database, clock: SetClock, head_file: Path, seq: str) -> None:
    _sealed(db, clock, head_file)
    _disarm(db)
    _run(db, f"INSERT INTO events (at, kind, cause, actor, seal_seq, seal) SELECT at, kind, cause, actor, {seq}, seal"
         " FROM events WHERE seal_seq = 1")  # fmt: skip
    verdict = verify(db, head_file)
    assert (verdict.ok, verdict.first_bad) == (False, 1)
    assert "inserted" in (verdict.problem or "")


@pytest.mark.parametrize(
    "value", ["CAST(x'ff00' AS TEXT)", "x'ff'", "1.5", "'2026'"], ids=["bad text", "bytes", "number", "short"]
)
@pytest.mark.parametrize("column", ["at", "cause", "detail"])
def test_a_value_that_no_column_holds_is_found(
    sqlite_url: str, clock: SetClock, head_file: Path, column: str, value: str
) -> None:
    db = open_database(sqlite_url)
    _sealed(db, clock, head_file)
    _disarm(db)
    _run(db, _edit(column, value))
    verdict = verify(db, head_file)
    assert not verdict.ok
    assert verdict.first_bad is not None
    assert verdict.first_bad <= 5
    db.close()


def _cut(db: Database, after: int) -> None:
    _run(db, f"DELETE FROM events WHERE seal_seq > {after}")


def _unseal_all(db: Database) -> None:
    _run(db, "UPDATE events SET seal_seq = NULL, seal = NULL")


def _cut_tail(db: Database, clock: SetClock, forger: Path) -> None:
    _cut(db, 7)


def _cut_all(db: Database, clock: SetClock, forger: Path) -> None:
    _cut(db, 0)


def _cut_and_regrow(db: Database, clock: SetClock, forger: Path) -> None:
    _cut(db, 7)
    _record(db, clock, 5)
    assert seal(db, clock, forger) == 5


def _rewrite(db: Database, clock: SetClock, forger: Path) -> None:
    _run(db, _edit("cause", "'forged'"))
    _unseal_all(db)
    assert seal(db, clock, forger) == _ROWS


@pytest.mark.parametrize(
    ("forge", "says"),
    [(_cut_tail, "was cut"), (_cut_all, "was cut"), (_cut_and_regrow, "rewritten"), (_rewrite, "rewritten")],
)
def test_a_chain_that_holds_in_itself_is_held_against_its_head(
    db: Database,
    clock: SetClock,
    head_file: Path,
    forge: Callable[[Database, SetClock, Path], None],
    says: str,
) -> None:
    _sealed(db, clock, head_file)
    kept = head_file.read_bytes()
    _disarm(db)
    forger = head_file.with_name("forger.head")
    forge(db, clock, forger)
    assert verify(db, forger).ok
    verdict = verify(db, head_file)
    assert not verdict.ok
    assert says in (verdict.problem or "")
    with pytest.raises(NightdeskError, match="no longer contains its own head"):
        seal(db, clock, head_file)
    assert head_file.read_bytes() == kept


def test_nothing_more_is_sealed_onto_a_broken_chain(db: Database, clock: SetClock, head_file: Path) -> None:
    _sealed(db, clock, head_file)
    _disarm(db)
    _cut(db, 3)
    _record(db, clock, 2)
    with pytest.raises(NightdeskError):
        seal(db, clock, head_file)
    assert verify(db, head_file).unsealed == 2


@pytest.fixture
def grown(sqlite_url: str, clock: SetClock, head_file: Path) -> Path:
    """The file of a database with a sealed chain and no triggers."""
    db = open_database(sqlite_url)
    _sealed(db, clock, head_file)
    _disarm(db)
    db.close()
    return Path(str(db.engine.url.database))


_columns = ["at", "kind", "task_id", "version", "prior_state", "state", "cause", "actor", "detail"]
_row = st.integers(1, _ROWS)
_tamperings = st.one_of(
    st.tuples(st.just("edit"), _row, st.sampled_from(_columns), st.text("ab0 ", min_size=1)),
    st.tuples(st.just("delete"), _row, st.integers(0, 3)),
    st.tuples(st.just("swap"), _row, _row).filter(lambda swap: swap[1] != swap[2]),
    st.tuples(st.just("copy"), _row, _row).filter(lambda copy: copy[1] != copy[2]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tampering=_tamperings)
def test_any_tampering_is_found(grown: Path, head_file: Path, tampering: tuple[Any, ...]) -> None:
    db = open_database(f"sqlite:///{shutil.copy(grown, grown.with_name('tampered.db'))}")
    first = _tamper(db, *tampering)
    verdict = verify(db, head_file)
    db.close()
    assert (verdict.ok, verdict.first_bad) == (False, first)


def _tamper(db: Database, kind: str, row: int, *how: Any) -> int:
    """Do it, and say which place in the chain is the first that is wrong."""
    if kind == "edit":
        column, value = how
        with db.write() as conn:
            conn.execute(
                sa.text(f"UPDATE events SET {column} = :value WHERE seal_seq = :row"), {"value": value, "row": row}
            )
        return row
    if kind == "delete":
        _run(db, f"DELETE FROM events WHERE seal_seq BETWEEN {row} AND {row + how[0]}")
        return row
    other: int = how[0]
    if kind == "swap":
        _run(
            db,
            f"UPDATE events SET seal_seq = 1000 WHERE seal_seq = {row}",
            f"UPDATE events SET seal_seq = {row} WHERE seal_seq = {other}",
            f"UPDATE events SET seal_seq = {other} WHERE seal_seq = 1000",
        )
        return min(row, other)
    _run(db, f"UPDATE events SET (cause, at, detail) = (SELECT cause, at, detail FROM events WHERE seal_seq = {other})"
         f" WHERE seal_seq = {row}")  # fmt: skip
    return row


def test_a_long_chain_is_read_in_chunks(
    db: Database, clock: SetClock, head_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_CHUNK", 4)
    _record(db, clock, 12)
    seal(db, clock, head_file)
    told: list[int] = []
    assert verify(db, head_file, told.append).rows == 12
    assert told == [4, 8, 12]
    _disarm(db)
    _run(db, "UPDATE events SET cause = 'forged' WHERE seal_seq = 9")
    assert verify(db, head_file).first_bad == 9


def test_verification_goes_by_the_index(db: Database, clock: SetClock, head_file: Path) -> None:
    _sealed(db, clock, head_file)
    plan: list[str] = []

    @sa.event.listens_for(db.engine, "before_cursor_execute", retval=False)
    def explain(_conn: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if "seal_seq >" in statement or "ORDER BY" in statement:
            if not db.is_sqlite:
                # A table this small is otherwise read whole and sorted.
                cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
            cursor.execute(("EXPLAIN QUERY PLAN " if db.is_sqlite else "EXPLAIN ") + statement, parameters)
            plan.extend(str(row) for row in cursor.fetchall())

    assert verify(db, head_file).ok
    assert any("uq_events_seal_seq" in line or "USING INDEX" in line for line in plan)
    assert not any("TEMP B-TREE" in line or "Sort" in line for line in plan)
