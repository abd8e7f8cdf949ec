"""Known-bad drafts among the others: told from them by nothing, revealed with the answer, never released or counted."""

import dataclasses
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import Conflict, NotFound
from nightdesk.review.asked import Decided
from nightdesk.review.batch import approve_rest
from nightdesk.review.lots import draw
from nightdesk.review.minutes import observed_minutes
from nightdesk.review.seeds import RANDOM_CHECK, caught_by
from nightdesk.settings import ReviewSettings
from nightdesk.store import events, reviews, tasks
from tests.review.morning import TERMINAL, Morning, token


def seed(morning: Morning, percent: float) -> None:
    settings = morning.house.settings.model_copy(update={"review": ReviewSettings(seeded_percent=percent)})
    morning.house = dataclasses.replace(morning.house, settings=settings)


def seeded(morning: Morning) -> list[str]:
    return [row["task_id"] for row in morning.rows(reviews) if row["seeded"]]


def with_one_seeded(morning: Morning, kind: str = "listing") -> str:
    """A draft was refused; among many others a copy of it is laid on the desk."""
    bad = morning.one(kind, "bad")
    morning.decide(bad, "reject", TERMINAL, reason="claim not supported", note="bullet 1")
    seed(morning, 20)
    morning.lay(kind, *(f"n{number:02}" for number in range(25)))
    [found] = seeded(morning)
    return found


def test_by_default_there_are_none(quick_morning: Morning) -> None:
    quick_morning.decide(quick_morning.one(name="bad"), "reject", TERMINAL)
    quick_morning.lay("listing", *(f"n{number:02}" for number in range(10)))
    assert seeded(quick_morning) == []
    assert RANDOM_CHECK not in {row["why_here"] for row in quick_morning.rows(reviews)}


def test_it_looks_like_any_other(morning: Morning) -> None:
    item = with_one_seeded(morning)
    other = next(row["task_id"] for row in morning.rows(reviews) if row["task_id"] not in (item, "bad"))
    card, true = morning.card(item), morning.card(other)
    assert card["payload"]["title"] == "bad"
    assert (card["why_here"], card["version"], card["verbs"]) == (RANDOM_CHECK, 1, true["verbs"])
    assert {name for name, value in card.items() if value in (None, [], {})} <= {
        name for name, value in true.items() if value in (None, [], {})
    }
    assert item in morning.listed()
    assert "seed" not in str(card)


@pytest.mark.parametrize(
    ("verb", "caught"), [("approve", False), ("edit", False), ("send_back", True), ("reject", True)]
)
def test_its_answer_reveals_it_and_nothing_comes_of_it(quick_morning: Morning, verb: str, caught: bool) -> None:
    item = with_one_seeded(quick_morning)
    ana = quick_morning.hire("ana")
    staged: list[Any] = []
    from nightdesk.review.asked import Asked
    from nightdesk.review.decisions import decide

    quick_morning.decide(item, "later", ana)
    hash_ = quick_morning.card(item)["hash"]
    opened = quick_morning.clock.now()
    quick_morning.clock.advance(60)
    said: Any = {"edits": {"title": "x"} if verb == "edit" else None, "reason": "x", "opened_at": opened}
    asked = Asked(item, verb, hash_, ana, **said)
    outcome = decide(quick_morning.house, asked, lambda conn, house, task, draft: staged.append(task))
    assert outcome.seeded is not None
    assert (outcome.seeded.caught, outcome.seeded.why) == (caught, "claim not supported: bullet 1")
    assert (outcome.state, outcome.final, outcome.can_undo, staged) == ("rejected", False, False, [])
    assert decide(quick_morning.house, asked) == outcome
    with pytest.raises(Decided, match="its answer stands"):
        quick_morning.decide(item, "undo", ana, hash_)
    found = caught_by(quick_morning.house, "user:ana")
    assert (found.shown, found.caught) == (1, int(caught))
    with quick_morning.house.db.read() as conn:
        assert observed_minutes(conn, "listing") is None


def test_each_refused_draft_is_shown_once_more_at_most(quick_morning: Morning) -> None:
    with_one_seeded(quick_morning)
    quick_morning.lay("listing", *(f"m{number:02}" for number in range(20)))
    assert len(seeded(quick_morning)) == 1
    shown = [row["why_here"] for row in quick_morning.rows(reviews)]
    assert shown.count(RANDOM_CHECK) > 5


def test_what_cannot_be_taken_back_is_no_matter_to_try_people_with(quick_morning: Morning) -> None:
    quick_morning.decide(quick_morning.one("payout", "bad"), "reject", TERMINAL)
    seed(quick_morning, 20)
    quick_morning.lay("payout", *(f"n{number:02}" for number in range(25)))
    assert seeded(quick_morning) == []


def test_no_lot_has_one(quick_morning: Morning) -> None:
    item = with_one_seeded(quick_morning, "advert")
    quick_morning.lay("advert", *(f"m{number:02}" for number in range(20)))
    lot = draw(quick_morning.house, "advert", TERMINAL)
    for sampled in lot.to_read:
        quick_morning.decide(sampled, "approve", TERMINAL)
    approve_rest(quick_morning.house, lot.id, TERMINAL)
    assert quick_morning.state(item) == "review"
    with pytest.raises((Conflict, NotFound)):
        draw(quick_morning.house, "advert", token())


def test_nothing_in_the_night_counts_it(quick_morning: Morning) -> None:
    item = with_one_seeded(quick_morning)
    with quick_morning.house.db.read() as conn:
        row = conn.execute(sa.select(tasks).where(tasks.c.id == item)).mappings().one()
        told = conn.execute(sa.select(events.c.state).where(events.c.task_id == item)).scalars().all()
    assert (row["night"], row["rank"], row["dispatch"], told) == (None, None, 0, ["review"])
