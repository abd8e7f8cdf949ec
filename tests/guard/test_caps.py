"""What a person sees of budgets, and how they are raised."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from nightdesk.clock import SetClock
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard.budgets import keys_of, note_refusal, reserve, settle
from nightdesk.guard.caps import Budget, count_waiting, list_budgets, raise_cap, require_tenant
from nightdesk.guard.purses import Purse, Refusal
from nightdesk.house import House
from nightdesk.intake import Submission, submit
from nightdesk.settings import Settings
from nightdesk.store import Database, events, tasks
from nightdesk.work.tasks import cancel

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


def _events(db: Database) -> list[Any]:
    with db.read() as conn:
        return list(conn.execute(events.select().where(events.c.kind == "budget").order_by(events.c.id)))


def test_raising_makes_room_and_says_so(db: Database, clock: SetClock) -> None:
    _reserve(db, PURSES, 1_000_000)
    clock.advance(60)
    raised = raise_cap(db, clock, TASK, Decimal("0.5"), why="more", actor="cli")
    assert (raised.raised_micros, raised.left_micros) == (500_000, 500_000)
    assert (raised.asked_at, raised.freed_at) == (None, clock.now())
    assert raise_cap(db, clock, TASK, Decimal(1), why="more", actor="cli").raised_micros == 1_500_000
    assert _reserve(db, [TASK, DAY], 1_500_000) is None
    assert _reserve(db, [TASK, DAY], 1) is not None


@pytest.mark.parametrize("amount", ["0", "-1", "0.0000001", "1000001", "NaN", "Infinity"])
def test_nonsense_is_not_raised(db: Database, clock: SetClock, amount: str) -> None:
    _reserve(db, PURSES, 1)
    with pytest.raises(Invalid, match="dollars"):
        raise_cap(db, clock, TASK, Decimal(amount), why="more", actor="cli")
    with pytest.raises(Invalid, match="why"):
        raise_cap(db, clock, TASK, Decimal(1), why=" ", actor="cli")
    assert _events(db) == []


def test_only_a_budget_with_a_limit_can_be_raised(db: Database, clock: SetClock) -> None:
    _reserve(db, PURSES, 1)
    with pytest.raises(NotFound, match="the day 2026-03-01 has no limit"):
        raise_cap(db, clock, DAY, Decimal(1), why="more", actor="cli")
    assert _events(db) == []


def test_a_budget_that_nothing_was_paid_from_can_be_raised(db: Database, clock: SetClock) -> None:
    raised = raise_cap(db, clock, TASK, Decimal("0.5"), why="a long one", actor="cli")
    assert (raised.limit_micros, raised.raised_micros, raised.left_micros) == (1_000_000, 500_000, 1_500_000)
    assert [(event.prior_state, event.state) for event in _events(db)] == [("$1.00", "$1.50")]
    assert _reserve(db, PURSES, 1_500_000) is None
    assert _reserve(db, [TASK], 1) is not None


def test_raising_counts_from_the_limit_as_it_is_stated_now(db: Database, clock: SetClock) -> None:
    """Also where nothing limited the budget when it was last paid from."""
    _reserve(db, [replace(TASK, limit_micros=None)], 1_200_000)
    raised = raise_cap(db, clock, TASK, Decimal("0.5"), why="more", actor="cli")
    assert (raised.limit_micros, raised.left_micros) == (1_000_000, 300_000)


def test_a_tenant_must_have_been_heard_of(house: House) -> None:
    db, settings = house.db, Settings.model_validate({"budget": {"tenant": {"new-one": {"day": 2}}}})
    require_tenant(db, settings, "new-one")
    with pytest.raises(NotFound, match='no tenant "acme"; there are no tasks yet'):
        require_tenant(db, Settings(), "acme")
    submit(house, Submission("drill", {"name": "first"}, tenant="acme"), actor="test")
    require_tenant(db, settings, "acme")
    with pytest.raises(NotFound, match='no tenant "acne"; did you mean "acme"'):
        require_tenant(db, settings, "acne")


def test_tasks_that_wait_for_money_are_counted(house: House) -> None:
    submitted = submit(house, Submission("drill", {"name": "first"}), actor="test")
    assert count_waiting(house.db) == 0
    with house.db.write() as conn:
        conn.execute(tasks.update().where(tasks.c.id == submitted.id), {"state": "waiting", "waiting_for": "budget"})
    assert count_waiting(house.db) == 1


def _listed(db: Database, stated: dict[str, Any] | None = None, most: int = 200) -> list[tuple[str, str, int | None]]:
    found = list_budgets(db, Settings.model_validate({"budget": stated or {}}), AT, most=most)
    return [(budget.scope, budget.name, budget.limit_micros) for budget in found]


def _ask_for(db: Database, purse: Purse) -> None:
    with db.write() as conn:
        refusal = reserve(db, conn, AT, [purse], (purse.limit_micros or 0) + 1)
        assert refusal is not None
        note_refusal(conn, AT, refusal)


def test_the_list_has_what_concerns_anyone_now(db: Database) -> None:
    old = [replace(purse, day=purse.day and "2026-02-27", name=f"old-{purse.name}") for purse in PURSES]
    held = [Purse("tenant", "held", "2026-02-27", 10)]
    night = [Purse("night", "2026-03-01", "", 50)]
    for purses in (old, held, night, PURSES):
        _reserve(db, purses, 5)
    for purses in (old, night, PURSES):
        _settle(db, purses, 5, 5)
    for purse in (Purse("task", "asked", "", 10), Purse("playbook", "asked-long-ago", "2026-02-27", 10)):
        _ask_for(db, purse)
    assert _listed(db, {"night": "0.00005"}) == [
        ("day", "all", None),
        ("night", "2026-03-01", 50),
        ("tenant", "held", 10),
        ("playbook", "drill", 2_000_000),
        ("task", "asked", 10),
    ]
    assert len(_listed(db, most=2)) == 2


def test_tasks_in_great_number_hide_no_budget_that_all_share(db: Database) -> None:
    night = Purse("night", "2026-03-01", "", 50)
    _reserve(db, [night, Purse("tenant", "acme", "2026-03-01", 50), DAY], 1)
    for number in range(6):
        _reserve(db, [Purse("task", f"t{number}", "", 9)], 1)
    _ask_for(db, Purse("task", "t2", "", 9))
    scopes_and_names = [row[:2] for row in _listed(db, {"night": "0.00005"}, most=4)]
    assert scopes_and_names == [("day", "all"), ("night", "2026-03-01"), ("tenant", "acme"), ("task", "t2")]


def test_caps_of_day_and_night_are_listed_as_they_are_stated_now(db: Database) -> None:
    assert _listed(db) == []
    assert _listed(db, {"night": 5}) == [("night", "2026-03-01", 5_000_000)]
    _reserve(db, [Purse("night", "2026-03-01", "", 5_000_000)], 1)
    assert _listed(db, {"night": 7, "day": 20}) == [("day", "all", 20_000_000), ("night", "2026-03-01", 7_000_000)]


def test_a_task_that_has_ended_needs_no_money(house: House) -> None:
    submitted = submit(house, Submission("drill", {"name": "first"}), actor="test")
    _ask_for(house.db, Purse("task", submitted.id, "", 10))
    assert _listed(house.db) == [("task", submitted.id, 10)]
    cancel(house, submitted.id, actor="test", why="not wanted")
    assert _listed(house.db) == []


def test_a_budget_without_a_limit_has_no_rest() -> None:
    assert Budget("day", "all", "2026-03-01", None, spent_micros=5).left_micros is None
