"""Any plans of many threads at once, held against plain arithmetic: no budget is ever passed, and all is settled."""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings as hypothesis_settings, strategies as st

from nightdesk.clock import SetClock
from nightdesk.guard.budgets import keys_of, reserve, settle
from nightdesk.guard.caps import raise_cap
from nightdesk.guard.purses import Purse, Scope
from nightdesk.store import Database, budgets, metadata, open_database

AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
SCOPES: tuple[Scope, ...] = ("task", "playbook", "tenant", "night", "day")


@dataclass(frozen=True)
class Call:
    """Reserves so much in these purses; of that it spends a share, after the thread's next call or at once."""

    scopes: frozenset[Scope]
    micros: int
    percent: int
    lingers: bool


@dataclass(frozen=True)
class Raise:
    scope: Scope
    micros: int


Move = Call | Raise
_CALLS = st.builds(
    Call, st.frozensets(st.sampled_from(SCOPES), min_size=1), st.integers(0, 60), st.integers(0, 100), st.booleans()
)
_MOVES = st.lists(_CALLS | st.builds(Raise, st.sampled_from(SCOPES), st.integers(1, 40)), min_size=1, max_size=8)
_PLANS = st.lists(_MOVES, min_size=2, max_size=5)
_CAPS = st.fixed_dictionaries({scope: st.none() | st.integers(0, 150) for scope in SCOPES})


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """One for all examples, each of which empties its budgets."""
    with tempfile.TemporaryDirectory() as folder:
        if request.param == "postgres":
            opened = open_database(request.getfixturevalue("guard_postgres"))
        else:
            opened = open_database(f"sqlite:///{Path(folder) / 'plain.db'}")
            with opened.write() as conn:
                metadata.create_all(conn)
        yield opened
        opened.close()


@dataclass
class Accounts:
    """What a thread did: what it spent in each scope, how much it asked for there, and what was refused."""

    spent: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    refused: list[Call] = field(default_factory=list)

    def __add__(self, other: "Accounts") -> "Accounts":
        return Accounts(self.spent + other.spent, self.asked + other.asked, self.refused + other.refused)


@hypothesis_settings(max_examples=30, deadline=None)
@given(_PLANS, _CAPS)
def test_many_threads_never_pass_a_budget_and_leave_nothing_reserved(
    shared_db: Database, plans: list[list[Move]], caps: dict[Scope, int | None]
) -> None:
    with shared_db.write() as conn:
        conn.execute(budgets.delete())
    purses = {scope: Purse(scope, "x", "", cap) for scope, cap in caps.items()}
    together = threading.Barrier(len(plans))

    def follow(moves: list[Move]) -> Accounts:
        together.wait(10)
        return _followed(shared_db, purses, moves)

    with _watched(shared_db, caps) as passed, ThreadPoolExecutor(len(plans)) as pool:
        accounts = sum(pool.map(follow, plans), Accounts())
    assert passed == []
    rows = _rows(shared_db)
    assert {scope: row.reserved_micros for scope, row in rows.items() if row.reserved_micros} == {}
    assert Counter({scope: row.spent_micros for scope, row in rows.items()}) + Counter() == accounts.spent
    roomy = {scope for scope, cap in caps.items() if cap is None or accounts.asked[scope] <= cap}
    assert [call for call in accounts.refused if call.scopes <= roomy] == [], "there was room for all that was asked"


def _followed(db: Database, purses: dict[Scope, Purse], moves: list[Move]) -> Accounts:
    accounts, lingering = Accounts(), list[Call]()
    for move in moves:
        if isinstance(move, Raise):
            _raise(db, purses[move.scope], move.micros)
            continue
        accounts.asked.update(dict.fromkeys(move.scopes, move.micros))
        with db.write() as conn:
            is_refused = reserve(db, conn, AT, _of(purses, move), move.micros) is not None
        if is_refused:
            accounts.refused.append(move)
            continue
        lingering.append(move)
        if not move.lingers:
            _settle_all(db, purses, lingering, accounts)
    _settle_all(db, purses, lingering, accounts)
    return accounts


def _settle_all(db: Database, purses: dict[Scope, Purse], lingering: list[Call], accounts: Accounts) -> None:
    while lingering:
        call = lingering.pop()
        spent = call.micros * call.percent // 100
        with db.write() as conn:
            settle(db, conn, AT, keys_of(_of(purses, call)), call.micros, spent)
        accounts.spent.update(dict.fromkeys(call.scopes, spent))


def _raise(db: Database, purse: Purse, micros: int) -> None:
    if purse.limit_micros is not None:
        raise_cap(db, SetClock(AT), purse, Decimal(micros) / 1_000_000, why="more", actor="test")


def _of(purses: dict[Scope, Purse], call: Call) -> list[Purse]:
    """In an order of the call's own: that of a set."""
    return [purses[scope] for scope in call.scopes]


def _rows(db: Database) -> dict[Scope, sa.Row[tuple[object, ...]]]:
    with db.read() as conn:
        return {row.scope: row for row in conn.execute(sa.select(budgets))}


@contextmanager
def _watched(db: Database, caps: dict[Scope, int | None]) -> Iterator[list[str]]:
    """Whatever is found passed, looking all the time."""
    passed: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for scope, row in _rows(db).items():
                cap, held = caps[scope], row.reserved_micros + row.spent_micros
                if cap is not None and held > cap + row.raised_micros:
                    passed.append(f"{scope}: {held} of {cap + row.raised_micros}")
            time.sleep(0.001)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield passed
    finally:
        over.set()
        watcher.join()
