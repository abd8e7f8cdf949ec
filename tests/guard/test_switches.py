"""A switch covers what it names, the strongest wins, and each change leaves an event."""

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.errors import Invalid
from nightdesk.guard.switches import Switchboard, active_switches, clear_switch, set_switch
from nightdesk.store import Database, events


def _events(db: Database) -> list[tuple[str, str, str, str]]:
    columns = events.c.prior_state, events.c.state, events.c.cause, events.c.actor
    with db.read() as conn:
        return [tuple(row) for row in conn.execute(sa.select(*columns).where(events.c.kind == "switch"))]


def test_a_switch_without_scope_covers_everything(db: Database, clock: SetClock) -> None:
    set_switch(db, clock, mode="pause", why="prices look wrong", actor="cli")
    switch = Switchboard(db).covering("drill", "main")
    assert switch is not None
    assert (switch.mode, switch.why, switch.set_by, switch.set_at) == ("pause", "prices look wrong", "cli", clock.now())


@pytest.mark.parametrize(
    ("playbook", "tenant", "covered"),
    [("drill", "", True), ("", "main", True), ("drill", "main", True), ("other", "", False), ("drill", "acme", False)],
)
def test_each_named_part_must_fit(db: Database, clock: SetClock, playbook: str, tenant: str, covered: bool) -> None:
    set_switch(db, clock, mode="pause", playbook=playbook, tenant=tenant, why="trial", actor="cli")
    assert (Switchboard(db).covering("drill", "main") is not None) == covered


def test_a_connectors_switch_covers_no_task(db: Database, clock: SetClock) -> None:
    set_switch(db, clock, mode="stop", connector="shop", why="shop is down", actor="cli")
    assert Switchboard(db).covering("drill", "main") is None
    assert [switch.connector for switch in active_switches(db)] == ["shop"]


def test_stop_is_stronger_than_pause(db: Database, clock: SetClock) -> None:
    set_switch(db, clock, mode="pause", why="first", actor="cli")
    set_switch(db, clock, mode="stop", tenant="main", why="second", actor="cli")
    board = Switchboard(db)
    strongest, milder = board.covering("drill", "main"), board.covering("drill", "acme")
    assert strongest is not None
    assert strongest.mode == "stop"
    assert milder is not None
    assert milder.mode == "pause"


def test_setting_again_changes_mode_and_reason(db: Database, clock: SetClock) -> None:
    set_switch(db, clock, mode="pause", playbook="drill", why="first", actor="cli")
    clock.advance(60)
    set_switch(db, clock, mode="stop", playbook="drill", why="worse", actor="web")
    (switch,) = active_switches(db)
    assert (switch.mode, switch.why, switch.set_by, switch.set_at) == ("stop", "worse", "web", clock.now())
    assert _events(db) == [("off", "pause", "first", "cli"), ("pause", "stop", "worse", "web")]


def test_clearing_removes_exactly_that_scope_and_says_if_there_was_none(db: Database, clock: SetClock) -> None:
    set_switch(db, clock, mode="pause", playbook="drill", why="first", actor="cli")
    assert not clear_switch(db, clock, why="mended", actor="cli")
    assert clear_switch(db, clock, playbook="drill", why="mended", actor="cli")
    assert not clear_switch(db, clock, playbook="drill", why="mended", actor="cli")
    assert active_switches(db) == []
    assert _events(db)[1:] == [("pause", "off", "mended", "cli")]


def test_a_switchboard_sees_changes_when_refreshed(db: Database, clock: SetClock) -> None:
    board = Switchboard(db)
    assert board.covering("drill", "main") is None
    set_switch(db, clock, mode="pause", why="trial", actor="cli")
    assert board.covering("drill", "main") is None
    board.refresh()
    assert board.covering("drill", "main") is not None


@pytest.mark.parametrize("why", ["", "  \n"])
def test_a_reason_is_required(db: Database, clock: SetClock, why: str) -> None:
    with pytest.raises(Invalid, match="why"):
        set_switch(db, clock, mode="pause", why=why, actor="cli")
    with pytest.raises(Invalid, match="why"):
        clear_switch(db, clock, why=why, actor="cli")
    assert active_switches(db) == []
    assert _events(db) == []
