"""Leases: who looks at a draft. They last five minutes, are renewed, taken over, and bind nobody."""

import pytest

from nightdesk.errors import Conflict, Forbidden
from nightdesk.review.leases import lease, leave
from nightdesk.store import reviews
from tests.review.morning import TERMINAL, Morning, token


def test_another_sees_who_is_there(morning: Morning) -> None:
    ana, ben = morning.hire("ana"), morning.hire("ben")
    item = morning.one()
    first = lease(morning.house, item, ana)
    assert (first.holder, first.mine, (first.until - morning.clock.now()).total_seconds()) == ("user:ana", True, 300)
    other = lease(morning.house, item, ben)
    assert (other.holder, other.mine, other.until) == ("user:ana", False, first.until)
    assert morning.card(item)["lease"] == {"holder": "user:ana", "until": "2026-01-31T22:05:00Z"}
    morning.clock.advance(299)
    assert lease(morning.house, item, ana).until > first.until
    morning.clock.advance(300)
    assert morning.card(item)["lease"] is None
    assert lease(morning.house, item, ben).mine


def test_it_can_be_taken_over_and_given_up(quick_morning: Morning) -> None:
    ana, ben = quick_morning.hire("ana"), quick_morning.hire("ben")
    item = quick_morning.one()
    lease(quick_morning.house, item, ana)
    quick_morning.clock.advance(10)
    assert lease(quick_morning.house, item, ben, take=True).holder == "user:ben"
    [row] = quick_morning.rows(reviews, item)
    assert (row["opened_by"], row["opened_at"]) == ("user:ben", quick_morning.clock.now())
    leave(quick_morning.house, item, ana)
    assert quick_morning.card(item)["lease"]["holder"] == "user:ben"
    leave(quick_morning.house, item, ben)
    assert quick_morning.card(item)["lease"] is None


def test_it_binds_nobody_and_ends_with_the_decision(quick_morning: Morning) -> None:
    ana = quick_morning.hire("ana")
    item = quick_morning.one()
    lease(quick_morning.house, item, ana)
    quick_morning.clock.advance(20)
    outcome = quick_morning.decide(item, "approve", TERMINAL)
    assert (outcome.state, quick_morning.decisions(item)[0]["opened_at"]) == ("approved", None)
    with pytest.raises(Conflict, match="It is approved now"):
        lease(quick_morning.house, item, ana)


def test_to_look_takes_the_right_to_review(quick_morning: Morning) -> None:
    item = quick_morning.one()
    with pytest.raises(Forbidden):
        lease(quick_morning.house, item, token("reader", "irreversible", "read"))
