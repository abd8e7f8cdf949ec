"""Silence is an alarm: within minutes, once, and over when it is over."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.clock import SetClock
from nightdesk.engine.slots import acquire, release, renew
from nightdesk.errors import GiveUp
from nightdesk.guard import breakers, budgets
from nightdesk.guard.purses import purse_of
from nightdesk.house import open_house
from nightdesk.night.vigil import Vigil
from nightdesk.store import alerts, notices
from nightdesk.work import Desk
from tests.conftest import make_house_folder
from tests.night.keeper import NOON, Keeper

_NIGHT = "2026-01-31"


@pytest.fixture
def keeper(house_folder: Path) -> Iterator[Keeper]:
    yield from _open(house_folder)


@pytest.fixture
def quick_keeper(tmp_path: Path, sqlite_url: str) -> Iterator[Keeper]:
    yield from _open(make_house_folder(tmp_path / "house", sqlite_url))


def _open(folder: Path) -> Iterator[Keeper]:
    clock = SetClock(NOON)
    house = open_house(folder, clock=clock)
    keeper = Keeper(house, clock)
    assert renew(house.db, keeper.slot, 3600)  # a worker is alive as long as the test runs
    keeper.set(notify={"urls": ["json://one", "json://two"]})
    keeper.have()
    yield keeper
    house.close()


def _open_alerts(keeper: Keeper) -> dict[str, str]:
    with keeper.house.db.read() as conn:
        rows = conn.execute(sa.select(alerts).where(alerts.c.cleared_at.is_(None)))
        return {row.kind: row.subject for row in rows}


def _told(keeper: Keeper) -> list[str]:
    with keeper.house.db.read() as conn:
        rows = conn.execute(sa.select(notices.c.payload).where(notices.c.kind == "apprise"))
        return sorted(str(row.payload["title"]) for row in rows)


def _vigil(keeper: Keeper) -> Vigil:
    return Vigil(keeper.house)


def test_a_night_that_does_not_start(keeper: Keeper) -> None:
    keeper.add("a")
    vigil = _vigil(keeper)
    keeper.look("2026-01-31T17:00:00")
    keeper.clock.advance(8 * 3600 + 299)
    vigil.look()
    assert _open_alerts(keeper) == {}
    keeper.clock.advance(1)
    vigil.look()
    _vigil(keeper).look()  # another process looks too
    assert _open_alerts(keeper) == {"night-not-started": _NIGHT}
    assert _told(keeper) == [f"Nightdesk: night-not-started ({_NIGHT})"] * 2
    keeper.look()
    vigil.look()
    assert _open_alerts(keeper) == {}
    assert len(_told(keeper)) == 2


def test_a_night_that_nobody_planned(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.clock.advance(13 * 3600 + 300)
    _vigil(keeper).look()
    assert _open_alerts(keeper) == {"night-not-started": _NIGHT}


def test_a_night_of_which_no_worker_is_left(keeper: Keeper) -> None:
    keeper.add("a")
    keeper.look("2026-01-31T17:00:00")
    keeper.look("2026-02-01T01:00:00")
    release(keeper.house.db, keeper.slot)
    vigil = _vigil(keeper)
    vigil.look()
    keeper.clock.advance(119)
    vigil.look()
    assert _open_alerts(keeper) == {}
    keeper.clock.advance(1)
    vigil.look()
    assert _open_alerts(keeper) == {"no-heartbeat": "worker"}
    acquire(keeper.house.db, 3600)
    vigil.look()
    assert _open_alerts(keeper) == {}


def test_by_day_no_worker_is_missed(quick_keeper: Keeper) -> None:
    release(quick_keeper.house.db, quick_keeper.slot)
    vigil = _vigil(quick_keeper)
    vigil.look()
    quick_keeper.clock.advance(600)
    vigil.look()
    assert _open_alerts(quick_keeper) == {}


def test_a_night_that_stands_still_and_does_not_end(keeper: Keeper) -> None:
    """A worker is alive, and does nothing."""
    keeper.add("a")
    keeper.look("2026-01-31T17:00:00")
    keeper.look("2026-02-01T01:00:00")
    vigil = _vigil(keeper)
    keeper.clock.advance(599)
    vigil.look()
    assert _open_alerts(keeper) == {}
    keeper.clock.advance(1)
    vigil.look()
    assert _open_alerts(keeper) == {"night-stalled": _NIGHT}
    keeper.clock.move_to(keeper.night(_NIGHT)["stops_at"] + timedelta(minutes=5))
    vigil.look()
    assert _open_alerts(keeper)["night-not-finished"] == _NIGHT
    keeper.look()
    vigil.look()
    assert _open_alerts(keeper) == {"night-drained-nothing": _NIGHT}
    keeper.clock.advance(86_401)
    assert "night-drained-nothing" in _open_alerts(keeper)
    vigil.look()
    assert "night-drained-nothing" not in _open_alerts(keeper)


def test_a_night_without_a_result(quick_keeper: Keeper) -> None:
    async def refuse(_order: Any, _desk: Desk) -> Json:
        raise GiveUp("No.")

    keeper = quick_keeper
    keeper.have(refuse)
    keeper.add("a", "b")
    keeper.look("2026-01-31T17:00:00")
    keeper.look("2026-02-01T01:00:00")
    keeper.run_all()
    keeper.look("2026-02-01T05:00:00")
    _vigil(keeper).look()
    assert _open_alerts(keeper) == {"night-wrote-nothing": _NIGHT}


def test_a_night_without_work_is_no_alarm(quick_keeper: Keeper) -> None:
    for moment in ("2026-01-31T17:00:00", "2026-02-01T01:00:00", "2026-02-01T05:00:00"):
        quick_keeper.look(moment)
        _vigil(quick_keeper).look()
    assert quick_keeper.nights() == {_NIGHT: "closed"}
    assert _open_alerts(quick_keeper) == {}


def test_a_breaker_that_is_latched_is_told_of_without_secrets(keeper: Keeper) -> None:
    db, now = keeper.house.db, keeper.clock.now()
    why = "401: key sk-abcdefghijklmnopqrstuvwx is not valid"  # pragma: allowlist secret
    with db.write() as conn:
        breakers.latch(db, conn, now, "anthropic", breakers.ANY, breakers.ANY, why)
    vigil = _vigil(keeper)
    vigil.look()
    assert list(_open_alerts(keeper)) == ["breaker-latched"]
    with db.read() as conn:
        rows = [*conn.execute(sa.select(alerts.c.why)), *conn.execute(sa.select(notices.c.payload))]
    assert len(rows) == 3
    assert all("[secret]" in str(row) and "sk-abc" not in str(row) for row in rows)
    breakers.reset(db, keeper.clock, "anthropic", why="a new key", actor="test")
    vigil.look()
    assert _open_alerts(keeper) == {}


def test_a_budget_for_which_a_person_is_asked(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.set(budget={"day": "1.00"})
    db, now = keeper.house.db, keeper.clock.now()
    purse = purse_of(keeper.house.settings, now, "day")
    with db.write() as conn:
        refusal = budgets.reserve(db, conn, now, [purse], 2_000_000)
        assert refusal is not None
        assert budgets.note_refusal(conn, now, refusal)
    vigil = _vigil(keeper)
    vigil.look()
    vigil.look()
    assert _open_alerts(keeper) == {"budget": f"the day {purse.day}"}
    keeper.clock.advance(86_400)
    vigil.look()
    assert _open_alerts(keeper) == {}
