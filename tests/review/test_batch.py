"""Drafts of little risk are approved together once a sample was read, which is as large as it must be."""

import math

import pytest

from nightdesk.errors import Conflict, Forbidden
from nightdesk.review.asked import Actor
from nightdesk.review.batch import approve_rest
from nightdesk.review.lots import Lot, draw, look_at, sample_size
from nightdesk.store import lots, reviews
from tests.review.morning import TERMINAL, Morning, token


@pytest.mark.parametrize(
    ("items", "percent", "size"),
    [
        (50, 10, 22), (100, 10, 25), (200, 10, 27), (50, 5, 39), (100, 5, 45), (200, 5, 51), (100_000, 10, 29),
        (100_000, 5, 59), (19, 10, 19), (20, 10, 16), (1, 10, 1), (0, 10, 0), (3, 50, 3),
    ],
)  # fmt: skip
def test_samples_are_as_large_as_they_must_be(items: int, percent: float, size: int) -> None:
    assert sample_size(items, percent) == size


@pytest.mark.parametrize("percent", [5, 10, 20])
def test_a_sample_misses_too_many_bad_ones_in_one_case_of_twenty_at_most(percent: int) -> None:
    """By counting the samples that have none of the bad ones; with one draft fewer it would be more."""
    for items in range(20, 300, 7):
        size, bad = sample_size(items, percent), max(1, items * percent // 100)
        assert 20 * math.comb(items - bad, size) <= math.comb(items, size)
        assert 20 * math.comb(items - bad, size - 1) > math.comb(items, size - 1)


@pytest.fixture
def adverts(morning: Morning) -> list[str]:
    return morning.lay("advert", *(f"n{number:02}" for number in range(24)))


def read(morning: Morning, lot: Lot, actor: Actor) -> None:
    for item in lot.to_read:
        morning.decide(item, "approve", actor)


def test_once_the_sample_is_read_the_rest_is_approved(morning: Morning, adverts: list[str]) -> None:
    ana = morning.hire("ana")
    lot = draw(morning.house, "advert", ana)
    assert (lot.items, len(lot.sample), len(lot.rest)) == (24, sample_size(24, 10), 24 - sample_size(24, 10))
    assert draw(morning.house, "advert", ana) == lot
    with pytest.raises(Conflict, match=f"{len(lot.sample)} of the sample of {len(lot.sample)} are not read yet"):
        approve_rest(morning.house, lot.id, ana)
    read(morning, lot, ana)
    staged: list[str] = []
    done = approve_rest(morning.house, lot.id, ana, lambda conn, house, task, draft: staged.append(task["id"]))
    assert done == staged == list(lot.rest)
    assert {morning.state(item) for item in adverts} == {"approved"}
    assert look_at(morning.house, lot.id).state == "approved"
    [row] = morning.decisions(done[0])
    assert (row["verb"], row["final"], row["reason"]) == (
        "approve", True, f"with a lot of 24, of which {len(lot.sample)} were read"
    )  # fmt: skip
    with pytest.raises(Conflict, match="approved already"):
        approve_rest(morning.house, lot.id, ana)
    assert morning.decide(done[0], "undo", ana).state == "review"


@pytest.mark.parametrize("verb", ["edit", "send_back", "reject"])
def test_one_bad_draft_ends_it(quick_morning: Morning, verb: str) -> None:
    quick_morning.lay("advert", *(f"n{number:02}" for number in range(20)))
    lot = draw(quick_morning.house, "advert", TERMINAL)
    bad, *others = lot.to_read
    quick_morning.decide(bad, verb, token(), edits={"title": "x"}, reason="x")
    for item in others:
        quick_morning.decide(item, "approve", TERMINAL)
    with pytest.raises(Conflict, match="found to be bad"):
        approve_rest(quick_morning.house, lot.id, TERMINAL)
    assert [quick_morning.state(item) for item in lot.rest] == ["review"] * len(lot.rest)
    with pytest.raises(Conflict, match="Only 0 drafts"):
        draw(quick_morning.house, "advert", TERMINAL)


def test_what_was_decided_in_the_meantime_stays_so(quick_morning: Morning) -> None:
    quick_morning.lay("advert", *(f"n{number:02}" for number in range(20)))
    lot = draw(quick_morning.house, "advert", TERMINAL)
    read(quick_morning, lot, TERMINAL)
    quick_morning.decide(lot.rest[0], "approve", token())
    assert approve_rest(quick_morning.house, lot.id, TERMINAL) == list(lot.rest[1:])


def test_nobody_approves_what_another_has_read(quick_morning: Morning) -> None:
    quick_morning.lay("advert", *(f"n{number:02}" for number in range(20)))
    lot = draw(quick_morning.house, "advert", TERMINAL)
    read(quick_morning, lot, TERMINAL)
    with pytest.raises(Forbidden, match="cli:test has drawn this lot"):
        approve_rest(quick_morning.house, lot.id, token())
    with pytest.raises(Conflict, match="Only 0 drafts"):
        draw(quick_morning.house, "advert", token())


def test_a_lot_is_of_one_day(quick_morning: Morning) -> None:
    quick_morning.lay("advert", *(f"n{number:02}" for number in range(20)))
    lot = draw(quick_morning.house, "advert", TERMINAL)
    quick_morning.clock.advance(3 * 3600)
    fresh = draw(quick_morning.house, "advert", token())
    assert (fresh.id == lot.id, fresh.items) == (False, 20)
    assert [row["state"] for row in sorted(quick_morning.rows(lots), key=lambda row: row["drawn_at"])] == [
        "lapsed", "drawn"
    ]  # fmt: skip


def test_only_what_is_green_and_of_little_risk_is_in_a_lot(quick_morning: Morning) -> None:
    kinds = ("listing", "payout", "memo")
    for kind in kinds:
        quick_morning.lay(kind, *(f"long {number:02}" for number in range(20)))
    for kind in kinds:
        with pytest.raises(Conflict, match="Only 0 drafts"):
            draw(quick_morning.house, kind, TERMINAL)
    low = token("low", "internal")
    quick_morning.lay("advert", *(f"n{number:02}" for number in range(20)))
    with pytest.raises(Conflict, match="Only 0 drafts"):
        draw(quick_morning.house, "advert", low)
    with pytest.raises(Forbidden):
        draw(quick_morning.house, "advert", token("reader", "irreversible", "read"))
    assert all(row["lot"] is None for row in quick_morning.rows(reviews))
