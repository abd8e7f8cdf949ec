"""Money is reserved in all budgets or in none, never past a limit, and a person is asked once."""

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings as hypothesis_settings, strategies as st

from nightdesk.clock import SetClock
from nightdesk.guard.budgets import keys_of, note_refusal, purses_for, release, reserve, settle, use
from nightdesk.guard.caps import list_budgets, raise_cap
from nightdesk.guard.purses import Purse, Refusal, dollars, local_day, next_day, night_of, title, to_micros
from nightdesk.settings import Settings
from nightdesk.store import Database, budgets, events, metadata, open_database

AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
DAY = Purse("day", "all", "2026-03-01", None)
TASK = Purse("task", "t1", "", 1_000_000)
PLAYBOOK = Purse("playbook", "drill", "2026-03-01", 2_000_000)
PURSES = [TASK, PLAYBOOK, DAY]


def _reserve(db: Database, purses: list[Purse], micros: int) -> Refusal | None:
    with db.write() as conn:
        return reserve(db, conn, AT, purses, micros)


def _settle(db: Database, purses: list[Purse], reserved: int, spent: int) -> None:
    with db.write() as conn:
        settle(db, conn, AT, keys_of(purses), reserved, spent)


def _sums(db: Database) -> dict[str, tuple[int, int]]:
    query = sa.select(budgets.c.scope, budgets.c.reserved_micros, budgets.c.spent_micros)
    with db.read() as conn:
        return {scope: (reserved, spent) for scope, reserved, spent in conn.execute(query)}


def _events(db: Database) -> list[Any]:
    with db.read() as conn:
        return list(conn.execute(events.select().where(events.c.kind == "budget").order_by(events.c.id)))


def test_a_reservation_is_made_in_every_purse(db: Database) -> None:
    assert _reserve(db, PURSES, 300_000) is None
    assert _sums(db) == {"task": (300_000, 0), "playbook": (300_000, 0), "day": (300_000, 0)}


def test_exactly_the_limit_fits_and_one_millionth_more_does_not(db: Database) -> None:
    assert _reserve(db, PURSES, 1_000_000) is None
    assert _reserve(db, PURSES, 1) is not None
    assert _reserve(db, PURSES, 0) is None


def test_when_one_refuses_nothing_is_reserved_in_any(db: Database) -> None:
    assert _reserve(db, [PLAYBOOK, DAY], 500_000) is None
    refusal = _reserve(db, PURSES, 1_200_000)
    assert refusal == Refusal(TASK, 1_000_000, 0, 0, 1_200_000)
    assert _sums(db) == {"task": (0, 0), "playbook": (500_000, 0), "day": (500_000, 0)}


def test_the_refusal_names_the_fullest_purse_in_a_sentence(db: Database) -> None:
    _reserve(db, [PLAYBOOK, DAY], 1_950_000)
    _settle(db, [PLAYBOOK, DAY], 1_950_000, 1_900_000)
    _reserve(db, PURSES, 50_000)
    refusal = _reserve(db, PURSES, 980_000)
    assert refusal is not None
    assert refusal.purse == PLAYBOOK
    assert refusal.sentence == (
        "The budget of playbook drill for 2026-03-01 is $2.00: $1.90 is spent and $0.05 reserved, "
        "and $0.98 more was asked for."
    )


def test_a_negative_reservation_is_a_mistake(db: Database) -> None:
    with pytest.raises(ValueError, match="-1"):
        _reserve(db, PURSES, -1)


def test_what_is_settled_is_free_again_up_to_what_was_spent(db: Database) -> None:
    _reserve(db, PURSES, 800_000)
    _settle(db, PURSES, 800_000, 300_000)
    assert _sums(db)["task"] == (0, 300_000)
    assert _reserve(db, PURSES, 700_000) is None
    with db.write() as conn:
        release(db, conn, AT, keys_of(PURSES), 700_000)
        settle(db, conn, AT, [], 1, 1)
    assert set(_sums(db).values()) == {(0, 300_000)}


def test_money_becoming_free_leaves_its_moment(db: Database) -> None:
    _reserve(db, PURSES, 800_000)
    _settle(db, PURSES, 400_000, 400_000)
    assert [budget.freed_at for budget in list_budgets(db, Settings(), AT)] == [None] * 3
    _settle(db, PURSES, 400_000, 399_999)
    assert [budget.freed_at for budget in list_budgets(db, Settings(), AT)] == [AT] * 2
    with db.read() as conn:
        assert conn.execute(sa.select(budgets.c.freed_at).distinct()).scalars().all() == [AT]


def test_what_was_spent_beyond_the_reservation_counts(db: Database) -> None:
    _reserve(db, PURSES, 900_000)
    _settle(db, PURSES, 900_000, 1_100_000)
    refusal = _reserve(db, PURSES, 1)
    assert refusal is not None
    assert refusal.spent_micros == 1_100_000


def test_settling_more_than_was_reserved_is_refused_by_the_schema(db: Database) -> None:
    _reserve(db, PURSES, 10)
    with pytest.raises(sa.exc.IntegrityError):
        _settle(db, PURSES, 11, 0)
    assert _sums(db)["day"] == (10, 0)


def test_the_limit_that_counts_is_that_of_the_purse(db: Database) -> None:
    _reserve(db, PURSES, 900_000)
    assert _reserve(db, [replace(TASK, limit_micros=1_500_000), DAY], 600_000) is None
    refusal = _reserve(db, [replace(TASK, limit_micros=100_000), DAY], 0)
    assert refusal is not None
    assert refusal.limit_micros == 100_000


def test_use_is_the_share_of_the_fullest(db: Database) -> None:
    def use_of(purses: list[Purse]) -> float:
        with db.read() as conn:
            return use(conn, purses)

    assert use_of(PURSES) == 0
    _reserve(db, PURSES, 500_000)
    _settle(db, PURSES, 200_000, 100_000)
    assert use_of(PURSES) == pytest.approx(0.4)
    assert use_of([PLAYBOOK, DAY]) == pytest.approx(0.2)
    assert use_of([DAY]) == 0
    raise_cap(db, SetClock(AT), TASK, Decimal(3), why="more", actor="cli")
    assert use_of([TASK]) == pytest.approx(0.1)
    assert use_of([replace(TASK, name="other", limit_micros=0)]) == 1


def test_a_person_is_asked_once_until_the_budget_is_raised(db: Database, clock: SetClock) -> None:
    def refused() -> bool:
        with db.write() as conn:
            refusal = reserve(db, conn, AT, PURSES, 1_500_000)
            assert refusal is not None
            return note_refusal(conn, AT, refusal)

    assert [refused(), refused(), refused()] == [True, False, False]
    raise_cap(db, clock, TASK, Decimal("0.25"), why="worth it", actor="cli:eve")
    assert [refused(), refused()] == [True, False]
    asked, raised, again = _events(db)
    assert (asked.state, asked.task_id, asked.actor) == ("asked", "t1", "worker")
    assert "task t1 is $1.00" in asked.cause
    assert (raised.prior_state, raised.state, raised.cause, raised.actor) == ("$1.00", "$1.25", "worth it", "cli:eve")
    assert "task t1 is $1.25" in again.cause


def _purses(stated: dict[str, Any], night: bool = False, **caps: Decimal | None) -> list[Purse]:
    chosen: dict[str, Decimal | None] = {"task_cap": None, "day_cap": None, **caps}
    settings = Settings.model_validate(stated)
    return purses_for(settings, "drill", chosen["task_cap"], chosen["day_cap"], "main", "t1", AT, night)


def test_without_caps_there_are_only_the_accounts_of_the_day() -> None:
    assert _purses({}, night=True) == [DAY]


def test_purses_follow_settings_and_playbook() -> None:
    stated = {
        "budget": {
            "day": "20",
            "night": 5,
            "task": "0.1",
            "playbook_day": "3",
            "tenant_day": "2",
            "tenant": {"acme": {"day": 9}},
        }
    }
    assert _purses(stated, night=True) == [
        replace(DAY, limit_micros=20_000_000),
        Purse("night", "2026-03-01", "", 5_000_000),
        Purse("tenant", "main", "2026-03-01", 2_000_000),
        Purse("playbook", "drill", "2026-03-01", 3_000_000),
        Purse("task", "t1", "", 100_000),
    ]
    own = _purses(stated, task_cap=Decimal("0.05"), day_cap=Decimal(1))
    assert [(purse.scope, purse.limit_micros) for purse in own if purse.scope in ("task", "playbook", "night")] == [
        ("playbook", 1_000_000), ("task", 50_000)
    ]  # fmt: skip
    of_main = _purses({"budget": {"tenant_day": "2", "tenant": {"main": {"day": 9}}}})
    assert of_main[1] == Purse("tenant", "main", "2026-03-01", 9_000_000)
    assert _purses({"budget": {"tenant_day": "2", "tenant": {"main": {}}}}) == [DAY]


@pytest.mark.parametrize(
    ("hour", "day", "night"),
    [(11, "2026-03-01", "2026-02-28"), (12, "2026-03-01", "2026-03-01"), (23, "2026-03-02", "2026-03-01")],
)
def test_day_and_night_are_those_of_the_house(hour: int, day: str, night: str) -> None:
    settings = Settings.model_validate({"night": {"zone": "Asia/Tokyo" if hour == 23 else "UTC"}})
    at = datetime(2026, 3, 1, hour, tzinfo=UTC)
    assert (local_day(settings, at), night_of(settings, at)) == (day, night)
    begins = next_day(settings, at)
    assert local_day(settings, begins) > day
    assert local_day(settings, begins - timedelta(seconds=1)) == day


@pytest.mark.parametrize(
    ("micros", "written"),
    [(0, "$0.00"), (1, "$0.000001"), (1_500_000, "$1.50"), (1_234_567_890_000, "$1,234,567.89"), (-20_000, "-$0.02")],
)
def test_money_is_written_exactly(micros: int, written: str) -> None:
    assert dollars(micros) == written


def test_fractions_of_a_millionth_are_cut_off() -> None:
    assert to_micros(Decimal("1.2345678")) == 1_234_567
    assert title("night", "2026-03-01", "") == "the night of 2026-03-01"


def test_the_next_day_begins_at_midnight_of_the_house() -> None:
    settings = Settings.model_validate({"night": {"zone": "Europe/Berlin"}})
    before_summer_time = datetime(2026, 3, 29, 20, tzinfo=UTC)
    assert next_day(settings, before_summer_time) == datetime(2026, 3, 29, 22, tzinfo=UTC)


def test_many_threads_together_never_pass_a_limit(db: Database) -> None:
    """Each of three hundred reserves once in its own task and in what all share."""
    over: list[Any] = []
    done = threading.Event()
    limit = PLAYBOOK.limit_micros or 0

    def watch() -> None:
        held = budgets.c.reserved_micros + budgets.c.spent_micros
        while not done.is_set():
            with db.read() as conn:
                over.extend(conn.execute(sa.select(budgets).where(held > budgets.c.limit_micros)).all())

    def work(number: int) -> bool:
        purses = [replace(TASK, name=f"t{number}"), PLAYBOOK, DAY]
        if _reserve(db, purses, 50_000) is not None:
            return False
        _settle(db, purses, 50_000, 10_000)
        return True

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(work, range(300)))
    done.set()
    watcher.join()
    assert over == []
    assert limit // 50_000 <= sent <= limit // 10_000
    assert _sums(db)["playbook"] == _sums(db)["day"] == (0, sent * 10_000)


def test_first_reservations_together_make_each_row_once(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        refusals = list(pool.map(lambda number: _reserve(db, PURSES, 100_000), range(16)))
    assert sum(refusal is None for refusal in refusals) == 10
    assert _sums(db) == {"task": (1_000_000, 0), "playbook": (1_000_000, 0), "day": (1_000_000, 0)}


_SCOPES = st.sampled_from(["task", "playbook", "tenant", "night", "day"])
_MOVES = st.lists(st.tuples(st.sampled_from(["reserve", "settle"]), st.sets(_SCOPES, min_size=1), st.integers(0, 60)))


@pytest.fixture(scope="module")
def plain_db() -> Iterator[Database]:
    """Faster than the one of other tests: nothing is asked of the disk."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_database(f"sqlite:///{Path(folder) / 'plain.db'}")
        with opened.write() as conn:
            metadata.create_all(conn)
        yield opened
        opened.close()


@hypothesis_settings(max_examples=60, deadline=None)
@given(_MOVES, st.lists(st.integers(0, 120), min_size=5, max_size=5))
def test_any_sequence_keeps_the_accounts(plain_db: Database, moves: list[Any], limits: list[int]) -> None:
    """Held against plain arithmetic: all or none, and never past a limit."""
    scopes = ("task", "playbook", "tenant", "night", "day")
    caps = dict(zip(scopes, limits, strict=True))
    held: dict[str, list[int]] = {scope: [0, 0] for scope in scopes}
    open_now: list[tuple[set[str], int]] = []
    with plain_db.write() as conn:
        conn.execute(budgets.delete())
        for move, chosen, micros in moves:
            if move == "settle" and open_now:
                settled, amount = open_now.pop()
                settle(plain_db, conn, AT, [[scope, "x", ""] for scope in settled], amount, amount // 2)
                for scope in settled:
                    held[scope][0] -= amount
                    held[scope][1] += amount // 2
            elif move == "reserve":
                purses: list[Any] = [Purse(scope, "x", "", caps[scope]) for scope in chosen]
                fits = all(sum(held[scope]) + micros <= caps[scope] for scope in chosen)
                assert (reserve(plain_db, conn, AT, purses, micros) is None) == fits
                if fits:
                    open_now.append((chosen, micros))
                    for scope in chosen:
                        held[scope][0] += micros
        rows = conn.execute(sa.select(budgets.c.scope, budgets.c.reserved_micros, budgets.c.spent_micros)).all()
    assert {scope: [reserved, spent] for scope, reserved, spent in rows}.items() <= held.items()
