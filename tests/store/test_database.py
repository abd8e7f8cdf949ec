"""Transactions, grouped writes, and rows that the schema refuses, on both databases."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import NightdeskError
from nightdesk.store import Database, events, is_outage, open_database, runs, tasks

NOW = datetime(2026, 1, 31, 22, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = open_database(database_url)
    yield database
    database.close()


def row(**other: Any) -> dict[str, Any]:
    base = {"id": "t", "playbook": "p", "tenant": "main", "key": "k", "playbook_version": "v", "state": "queued"}
    return base | {"priority": 2, "input": {"a": 1}, "created_at": NOW, "updated_at": NOW} | other


def run(**other: Any) -> dict[str, Any]:
    base = {"task_id": "t", "version": 1, "step": "s", "occurrence": 1, "position": 1, "status": "running"}
    return base | {"attempt": 1, "dispatch": 1, "started_at": NOW, "input_hash": "h"} | other


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "asleep"},
        {"state": "waiting"},
        {"waiting_for": "retry"},
        {"state": "waiting", "waiting_for": "godot"},
        {"state": "working"},
        {"slot": "w1.1"},
        {"state": "done"},
        {"ended_at": NOW},
        {"state": "dead", "ended_at": NOW},
        {"state": "review", "rank": 1},
        {"priority": 4},
        {"leg": 0},
        {"version": 0},
        {"input": None},
    ],
)
def test_impossible_tasks_are_refused(db: Database, wrong: dict[str, Any]) -> None:
    with pytest.raises(sa.exc.IntegrityError), db.write() as conn:
        conn.execute(tasks.insert(), row(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "odd"},
        {"status": "done"},
        {"ended_at": NOW},
        {"status": "failed", "ended_at": NOW},
        {"attempt": 0},
        {"occurrence": 0},
        {"task_id": "no such task"},
    ],
)
def test_impossible_runs_are_refused(db: Database, wrong: dict[str, Any]) -> None:
    with db.write() as conn:
        conn.execute(tasks.insert(), row())
    with pytest.raises(sa.exc.IntegrityError), db.write() as conn:
        conn.execute(runs.insert(), run(**wrong))


def test_one_task_per_playbook_tenant_and_key(db: Database) -> None:
    with db.write() as conn:
        conn.execute(tasks.insert(), [row(), row(id="u", tenant="other"), row(id="v", key="l")])
    with pytest.raises(sa.exc.IntegrityError), db.write() as conn:
        conn.execute(tasks.insert(), row(id="w"))


def test_values_come_back_as_they_went_in(db: Database) -> None:
    value = {"text": "ä\u2028\\u0000 and \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "n": [1.5]}
    with db.write() as conn:
        conn.execute(tasks.insert(), row(input=value, cost_usd=Decimal("0.000001"), result=None))
    with db.read() as conn:
        found = conn.execute(sa.select(tasks)).mappings().one()
    assert (found["input"], found["created_at"], found["cost_usd"]) == (value, NOW, Decimal("0.000001"))
    assert found["result"] is None


def test_a_moment_without_a_zone_is_refused(db: Database) -> None:
    with pytest.raises(sa.exc.StatementError, match="no time zone"), db.write() as conn:
        conn.execute(tasks.insert(), row(created_at=NOW.replace(tzinfo=None)))


@pytest.mark.parametrize("statement", ["DELETE FROM events", "UPDATE events SET cause = 'x'"])
def test_events_are_append_only(db: Database, statement: str) -> None:
    with db.write() as conn:
        conn.execute(events.insert(), {"at": NOW, "kind": "k", "cause": "c", "actor": "a"})
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), db.write() as conn:
        conn.execute(sa.text(statement))


def test_grouped_writes_are_each_committed_or_each_refused(db: Database) -> None:
    async def write_all() -> list[BaseException | None]:
        ids = [str(number % 30) for number in range(60)]  # each twice: one of the two is refused
        writes = [db.commit(lambda conn, i=i: insert(conn, i)) for i in ids]  # type: ignore[misc]
        return await asyncio.gather(*writes, return_exceptions=True)

    def insert(conn: sa.Connection, key: str) -> None:
        conn.execute(tasks.insert(), row(id=key, key=key))

    results = asyncio.run(write_all())
    assert sum(isinstance(result, sa.exc.IntegrityError) for result in results) == 30
    with db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(tasks)).scalar_one() == 30


def test_a_cancelled_write_leaves_the_others_alone(db: Database) -> None:
    gate = threading.Event()

    async def write() -> None:
        blocked = [asyncio.ensure_future(db.commit(lambda conn: gate.wait(5))) for _ in range(5)]
        await asyncio.sleep(0.1)
        late = asyncio.ensure_future(db.commit(lambda conn: conn.execute(tasks.insert(), row())))
        await asyncio.sleep(0.05)
        late.cancel()
        gate.set()
        await asyncio.gather(*blocked)

    asyncio.run(write())
    given_up = time.monotonic() + 10  # the cancelled one may still be on its way
    while db.stalled_for() and time.monotonic() < given_up:
        time.sleep(0.01)
    assert db.stalled_for() == 0


def test_a_write_waits_for_a_lock_and_says_how_long(db: Database) -> None:
    if not db.is_sqlite:
        return  # Postgres' writers do not lock each other out; the crash tests cover its outages
    with db.write() as conn:
        conn.execute(tasks.insert(), row())
        waiter = threading.Thread(target=lambda: asyncio.run(db.commit(lambda c: None)))
        waiter.start()
        waiter.join(0.3)
        assert db.stalled_for() > 0.2
    waiter.join(5)
    assert db.stalled_for() == 0


def test_outages_are_told_from_bugs(db: Database) -> None:
    away = open_database("postgresql://localhost:1/nowhere", patience_seconds=1)
    with pytest.raises(sa.exc.OperationalError) as outage, away.read():
        pass
    assert is_outage(outage.value)
    with pytest.raises(sa.exc.DBAPIError) as bug, db.read() as conn:
        conn.execute(sa.text("SELECT * FROM no_such_table"))
    assert not is_outage(bug.value)
    assert not is_outage(ValueError())


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y"])
def test_an_address_that_is_no_database_of_ours_is_refused(url: str) -> None:
    with pytest.raises(NightdeskError, match="sqlite:///"):
        open_database(url)
