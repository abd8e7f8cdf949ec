"""When nobody decides in time: held to the next morning, sent back or dropped, and never approved."""

from typing import Any

import pytest

from nightdesk.review.overdue import settle_overdue
from nightdesk.store import reviews
from tests.review.morning import TERMINAL, Morning


def due(morning: Morning, **stated: Any) -> None:
    morning.open(review={"decide_by": "23:00", **stated})


def test_by_default_it_is_held_to_the_next_morning(morning: Morning) -> None:
    due(morning)
    item = morning.one()
    hash_ = morning.card(item)["hash"]
    morning.clock.advance(3599)
    assert settle_overdue(morning.house) == 0
    morning.clock.advance(1)
    assert (settle_overdue(morning.house), settle_overdue(morning.house)) == (1, 0)
    assert (morning.listed(), morning.listed(later=True)) == ([], [item])
    [row] = morning.rows(reviews, item)
    assert [row[name].isoformat() for name in ("later_until", "decide_by")] == [
        "2026-02-01T07:30:00+00:00", "2026-02-01T23:00:00+00:00"
    ]  # fmt: skip
    assert morning.told(item) == [
        ("review", "held", "nobody has decided on it in time; it is held to the next morning", "policy")
    ]
    assert morning.decide(item, "approve", TERMINAL, hash_).state == "approved"
    morning.clock.advance(48 * 3600)
    assert settle_overdue(morning.house) == 0


@pytest.mark.parametrize(
    ("kind", "overdue", "state"),
    [
        ("payout", None, "expired"),
        ("payout", "hold", "review"),
        ("listing", "drop", "expired"),
        ("listing", "rework", "queued"),
    ],
)
def test_it_ends_as_its_playbook_says(quick_morning: Morning, kind: str, overdue: str | None, state: str) -> None:
    due(quick_morning, **({"overdue": overdue} if overdue else {}))
    item = quick_morning.one(kind)
    quick_morning.clock.advance(3600)
    assert settle_overdue(quick_morning.house) == 1
    assert quick_morning.state(item) == state
    if state == "queued":
        quick_morning.clock.advance(90)
        quick_morning.run_all()
        changed = quick_morning.card(item)["changed"]
        assert (changed["actor"], changed["reason"]) == ("policy", "nobody has decided on it in time")


def test_without_a_time_to_decide_by_it_stays(quick_morning: Morning) -> None:
    item = quick_morning.one("payout")
    quick_morning.clock.advance(30 * 86_400)
    assert (settle_overdue(quick_morning.house), quick_morning.listed()) == (0, [item])
