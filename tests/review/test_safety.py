"""What cannot be taken back: two people who neither asked for it nor edited it; or one, and time between two looks."""

import pytest

from nightdesk.errors import Forbidden
from nightdesk.review.asked import Actor
from tests.review.morning import TERMINAL, Morning, token

ADMIN = token("boss", "irreversible", "review", "admin")


def hired(morning: Morning) -> list[Actor]:
    """Three who may decide about it, and one who may not."""
    morning.hire("low", ceiling="customer")
    return [morning.hire("ana"), morning.hire("ben", "admin"), morning.hire("eva")]


@pytest.fixture
def people(quick_morning: Morning) -> list[Actor]:
    return hired(quick_morning)


def test_it_takes_two(morning: Morning) -> None:
    ana, ben, _ = hired(morning)
    item = morning.one("payout")
    assert morning.card(item, ana)["awaits"] == "two people"
    first = morning.decide(item, "approve", ana)
    assert (first.state, first.final, first.awaits) == ("review", False, "a second person")
    assert morning.told(item) == [("review", "approve", "approved for the first time", "user:ana")]
    morning.clock.advance(3600)
    assert morning.decide(item, "approve", ana) == first
    second = morning.decide(item, "approve", ben)
    assert (second.state, second.final, second.awaits) == ("approved", True, None)
    assert [row["final"] for row in morning.decisions(item)] == [False, True]
    assert morning.told(item)[-1][:3] == ("state", "approved", "approved")
    assert morning.decide(item, "approve", ben) == second


def test_both_have_seen_the_very_same(quick_morning: Morning, people: list[Actor]) -> None:
    ana, ben, eva = people
    item = quick_morning.one("payout")
    old = quick_morning.card(item)["hash"]
    quick_morning.decide(item, "approve", ana)
    edited = quick_morning.decide(item, "edit", ben, edits={"price": 12.0})
    assert (edited.state, edited.final, edited.awaits) == ("review", False, "two people")
    assert quick_morning.outcome_in_the_way(item, "approve", eva, old).hash == edited.hash
    assert quick_morning.decide(item, "approve", eva).awaits == "a second person"
    with pytest.raises(Forbidden, match="You have edited it") as refused:
        quick_morning.decide(item, "approve", ben)
    assert refused.value.right == "review irreversible"
    assert "You have edited it" in quick_morning.card(item, ben)["may_not"]
    assert quick_morning.decide(item, "approve", ana).state == "approved"


def test_undo_takes_one_approval_back_at_a_time(quick_morning: Morning, people: list[Actor]) -> None:
    ana, ben, _ = people
    item = quick_morning.one("payout")
    before = quick_morning.stored(item)
    quick_morning.decide(item, "approve", ana)
    quick_morning.decide(item, "approve", ben)
    assert quick_morning.decide(item, "undo", ben).awaits == "a second person"
    assert quick_morning.decide(item, "undo", ben).awaits == "a second person"
    assert quick_morning.decide(item, "undo", ana).awaits == "two people"
    assert quick_morning.stored(item) == before


def test_an_edit_of_it_is_undone_too(quick_morning: Morning, people: list[Actor]) -> None:
    item = quick_morning.one("payout")
    before = quick_morning.stored(item)
    edited = quick_morning.decide(item, "edit", people[0], edits={"price": 1.0})
    assert quick_morning.task(item)["result"]["price"] == 1.0
    quick_morning.decide(item, "undo", people[0], edited.hash)
    assert quick_morning.stored(item) == before
    quick_morning.decide(item, "approve", people[0])


def test_whoever_asked_for_it_has_no_say(quick_morning: Morning, people: list[Actor]) -> None:
    from nightdesk.intake import Submission, submit

    ana, ben, eva = people
    item = submit(quick_morning.house, Submission("payout", {"name": "own"}), actor="user:ana").id
    quick_morning.run_all()
    with pytest.raises(Forbidden, match="You have asked for this work"):
        quick_morning.decide(item, "approve", ana)
    quick_morning.decide(item, "approve", ben)
    assert quick_morning.decide(item, "approve", eva).state == "approved"


def test_whoever_asked_for_what_it_came_of_has_none_either(quick_morning: Morning, people: list[Actor]) -> None:
    from nightdesk.intake import Submission, submit
    from nightdesk.store import tasks

    parent = submit(quick_morning.house, Submission("drill", {"name": "own"}), actor="user:ana").id
    item = quick_morning.one("payout")
    with quick_morning.house.db.write() as conn:
        conn.execute(tasks.update().where(tasks.c.id == item), {"parent_id": parent})
    with pytest.raises(Forbidden, match="You have asked for this work"):
        quick_morning.decide(item, "approve", people[0])


@pytest.mark.parametrize("actor", [TERMINAL, ADMIN])
def test_terminals_and_tokens_are_no_second_person(quick_morning: Morning, people: list[Actor], actor: Actor) -> None:
    item = quick_morning.one("payout")
    quick_morning.decide(item, "approve", people[0])
    with pytest.raises(Forbidden, match="people who are signed in"):
        quick_morning.decide(item, "approve", actor)
    assert quick_morning.decide(item, "send_back", actor, reason="x").state == "queued"


@pytest.mark.parametrize("is_hired", [False, True])
def test_one_alone_looks_twice(quick_morning: Morning, is_hired: bool) -> None:
    morning = quick_morning
    actor = morning.hire("ana") if is_hired else TERMINAL
    item = morning.one("payout")
    assert morning.card(item)["awaits"] == "two looks, 15 minutes apart"
    first = morning.decide(item, "approve", actor)
    assert (first.state, first.awaits) == ("review", "a second look, not before 2026-01-31T22:15:00+00:00")
    morning.clock.advance(15 * 60 - 1)
    assert morning.decide(item, "approve", actor) == first
    morning.clock.advance(1)
    second = morning.decide(item, "approve", actor)
    assert (second.state, second.final) == ("approved", True)
    assert morning.told(item)[-1][2] == "approved alone, after a cool-down"


def test_the_time_between_two_looks_begins_anew_with_an_edit(quick_morning: Morning) -> None:
    item = quick_morning.one("payout")
    quick_morning.decide(item, "approve", TERMINAL)
    quick_morning.clock.advance(900)
    quick_morning.decide(item, "edit", TERMINAL, edits={"price": 1.0})
    assert quick_morning.decide(item, "approve", TERMINAL).final is False
    quick_morning.clock.advance(900)
    assert quick_morning.decide(item, "approve", TERMINAL).state == "approved"


def test_what_one_alone_began_two_have_to_finish(quick_morning: Morning) -> None:
    item = quick_morning.one("payout")
    quick_morning.decide(item, "approve", TERMINAL)
    ana, ben = quick_morning.hire("ana"), quick_morning.hire("ben")
    quick_morning.clock.advance(900)
    assert quick_morning.decide(item, "approve", ana).awaits == "a second person"
    assert quick_morning.decide(item, "approve", ben).state == "approved"
