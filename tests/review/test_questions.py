"""What a task asks, and budgets that are used up, are decided on the desk like drafts."""

import dataclasses
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import Forbidden, Invalid, NotFound
from nightdesk.guard.budgets import note_refusal, reserve
from nightdesk.guard.caps import list_budgets
from nightdesk.guard.purses import purse_of
from nightdesk.review.asked import Asked, Decided
from nightdesk.review.decisions import decide
from nightdesk.settings import BudgetSettings, TenantBudget
from nightdesk.store import events
from nightdesk.work import Desk
from nightdesk.work.insight import history
from tests.review.morning import TERMINAL, Morning, token


def asking(morning: Morning, name: str = "way ~ to/go?", **asked: Any) -> str:
    async def body(order: Any, desk: Desk) -> Any:
        return {"said": await desk.ask("Left or right?", ["left", "right"], name=name, **asked)}

    morning.have(body)
    task = morning.submit("job", {"name": "a"}).id
    morning.run_all()
    [item] = morning.listed(kind="question")
    assert item == f"q.{task}.way~20~7E~20to~2Fgo~3F"
    return item


def test_a_question_is_answered_on_the_desk(morning: Morning) -> None:
    item = asking(morning)
    card = morning.card(item)
    assert (card["kind"], card["sentence"], card["verbs"]) == ("question", "Left or right?", ["edit"])
    assert card["payload"] == {"question": "Left or right?", "choices": ["left", "right"], "default": None}
    said: Any = {"edits": {"choice": "right"}, "note": "because"}
    outcome = morning.decide(item, "edit", TERMINAL, card["hash"], **said)
    assert (outcome.kind, outcome.state, outcome.diff, outcome.actor) == (
        "question", "answered", {"choice": "right"}, "cli:test"
    )  # fmt: skip
    task = item.split(".")[1]
    told = history(morning.house, task)[-1]
    assert (told["kind"], told["cause"], told["actor"]) == ("answer", "answered: right", "cli:test")
    assert morning.decide(item, "edit", TERMINAL, card["hash"], **said) == outcome
    for actor, choice in ((TERMINAL, "left"), (token(), "right")):
        told_409 = morning.outcome_in_the_way(item, "edit", actor, card["hash"], edits={"choice": choice})
        assert told_409 == outcome
    morning.run_all()
    assert morning.task(task)["result"] == {"said": "right"}
    assert morning.listed() == []
    [row] = morning.decisions(task)
    assert (row["item"], row["final"], row["edits"]) == (item, False, {"choice": "right"})


def test_what_is_proposed_can_be_approved(quick_morning: Morning) -> None:
    item = asking(quick_morning, timeout=timedelta(hours=1), default="left")
    card = quick_morning.card(item)
    assert (card["deadline"], card["at_deadline"]) == ("2026-01-31T23:00:00Z", "otherwise “left” is taken")
    assert quick_morning.decide(item, "approve", TERMINAL).diff == {"choice": "left"}


@pytest.mark.parametrize(
    ("verb", "edits", "says"),
    [
        ("approve", None, "does not answer"),
        ("reject", None, "does not answer"),
        ("edit", {"choice": 1}, "does not answer"),
        ("edit", {"choice": "up"}, "known are left, right"),
    ],
)
def test_what_is_no_answer_is_refused(quick_morning: Morning, verb: str, edits: Any, says: str) -> None:
    item = asking(quick_morning)
    with pytest.raises(Invalid, match=says):
        quick_morning.decide(item, verb, TERMINAL, edits=edits)
    assert quick_morning.listed() == [item]


def test_a_question_is_for_those_who_may_see_it(quick_morning: Morning) -> None:
    item = asking(quick_morning)
    with pytest.raises(Forbidden):
        quick_morning.decide(item, "edit", token("x", "irreversible", "read"), edits={"choice": "left"})
    for tenant in ("another", None):
        hash_ = quick_morning.card(item)["hash"] if tenant else "0" * 64
        asked = Asked(item, "edit", hash_, TERMINAL, {"choice": "left"}, tenant=tenant)
        with pytest.raises(NotFound if tenant else Decided):
            decide(quick_morning.house, asked)


def used_up(morning: Morning, scope: Any = "day", name: str = "") -> str:
    """A budget that somebody was refused from."""
    budget = BudgetSettings(day="1.00", tenant={"a.b/c d": TenantBudget(day="2.00")})
    settings = morning.house.settings.model_copy(update={"budget": budget})
    morning.house = dataclasses.replace(morning.house, settings=settings)
    now = morning.clock.now()
    purse = purse_of(settings, now, scope, name)
    with morning.house.db.write() as conn:
        refusal = reserve(morning.house.db, conn, now, [purse], 5_000_000)
        assert refusal is not None
        note_refusal(conn, now, refusal)
    [item] = morning.listed(kind="budget")
    return item


def limit(morning: Morning) -> dict[str, int | None]:
    found = list_budgets(morning.house.db, morning.house.settings, morning.clock.now())
    return {budget.scope: (budget.limit_micros or 0) + budget.raised_micros for budget in found}


def test_a_budget_is_raised_on_the_desk(morning: Morning) -> None:
    item = used_up(morning)
    assert item == "b.day.all.2026-01-31"
    card = morning.card(item)
    assert (card["sentence"], card["verbs"]) == (
        "Allow $0.25 more for the day 2026-01-31",
        ["approve", "edit", "reject"],
    )
    assert card["payload"]["limit_usd"] == "1"
    outcome = morning.decide(item, "approve", TERMINAL, card["hash"], reason="a good night")
    assert (outcome.state, outcome.diff) == ("raised", {"dollars": "0.250000"})
    assert limit(morning)["day"] == 1_250_000
    assert morning.decide(item, "approve", TERMINAL, card["hash"]) == outcome
    assert morning.outcome_in_the_way(item, "approve", Actor2, card["hash"]) == outcome
    assert limit(morning)["day"] == 1_250_000
    assert morning.listed() == []
    with morning.house.db.read() as conn:
        last = conn.execute(sa.select(events.c.cause, events.c.state).order_by(events.c.id.desc()).limit(1)).one()
    assert tuple(last) == ("a good night", "$1.25")


Actor2 = token("ops", "irreversible", "review", "operate")


def test_it_can_be_another_sum_or_none(quick_morning: Morning) -> None:
    item = used_up(quick_morning)
    hash_ = quick_morning.card(item)["hash"]
    for edits in (None, {}, {"dollars": "x"}, {"dollars": True}, {"dollars": "NaN"}, {"dollars": "-1"}):
        with pytest.raises(Invalid):
            quick_morning.decide(item, "edit", TERMINAL, hash_, edits=edits)
    quick_morning.decide(item, "edit", TERMINAL, hash_, edits={"dollars": "2.50"})
    assert limit(quick_morning)["day"] == int(Decimal("3.50") * 1_000_000)
    item = used_up(quick_morning)
    assert quick_morning.decide(item, "reject", TERMINAL, note="enough").state == "refused"
    assert (quick_morning.listed(), limit(quick_morning)["day"]) == ([], 3_500_000)


def test_a_budget_by_any_name_has_its_card(quick_morning: Morning) -> None:
    item = used_up(quick_morning, "tenant", "a.b/c d")
    assert item == "b.tenant.a.b~2Fc~20d.2026-01-31"
    assert quick_morning.card(item)["payload"]["name"] == "a.b/c d"
    assert quick_morning.decide(item, "approve", TERMINAL).state == "raised"


def test_money_takes_the_right_to_operate(quick_morning: Morning) -> None:
    item = used_up(quick_morning)
    assert "operate" in quick_morning.card(item, token())["may_not"]
    with pytest.raises(Forbidden) as refused:
        quick_morning.decide(item, "approve", token())
    assert refused.value.right == "operate"
    hash_ = quick_morning.card(item)["hash"]
    with pytest.raises(NotFound):
        decide(quick_morning.house, Asked(item, "approve", hash_, TERMINAL, tenant="main"))
    assert limit(quick_morning)["day"] == 1_000_000
