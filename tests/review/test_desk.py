"""The list of the desk: what comes first, page by page, and how much is left."""

import dataclasses
from typing import Any

import pytest

from nightdesk.errors import NotFound
from nightdesk.playbook import Registry, playbook
from nightdesk.review.desk import Filters, list_items
from nightdesk.review.leases import lease
from nightdesk.review.minutes import ReviewMinutes, observed_minutes
from nightdesk.work import AskPerson, Desk
from tests.review.morning import KINDS, TERMINAL, Morning, write


def names(morning: Morning, **filters: Any) -> list[str]:
    """As kind and name."""
    found = list_items(morning.house, Filters(**filters), 200).items
    return [f"{item['playbook']} {morning.card(item['id'])['input']['name']}" for item in found]


async def doubtful(order: Any, desk: Desk) -> Any:
    if order.name == "stuck":
        raise AskPerson("Which one?")
    return await write(order, desk)


def test_urgent_kinds_come_first_then_risk_then_doubt_then_age(morning: Morning) -> None:
    gates = [{"length": {"field": "title", "max": 4}}, {"length": {"field": "title", "min": 2}}]
    morning.open(doubtful, gates=gates)
    for kind, name in (("listing", "old"), ("listing", "stuck"), ("listing", "young"), ("listing", "far too long")):
        morning.lay(kind, name)
        morning.clock.advance(1)
    morning.lay("advert", "two")
    morning.lay("advert", "one", priority="P1")
    assert names(morning)[2:] == ["listing stuck", "listing young", "listing far too long", "listing old"]
    assert set(names(morning)[:2]) == {"advert one", "advert two"}
    assert names(morning, failed=True) == ["listing stuck", "listing young", "listing far too long"]
    assert set(names(morning, failed=False)) == {"advert one", "advert two", "listing old"}
    assert names(morning, playbook="advert") == names(morning, risk="reversible") == names(morning)[:2]
    assert names(morning, kind="question") == []


def test_pages_hold_every_item_once(morning: Morning) -> None:
    async def asks(_order: Any, desk: Desk) -> Any:
        await desk.ask("Which?", ["left", "right"])

    made = playbook("asker", input={"name": "string"}, key="{name}", when="now", risk="internal")(asks)
    morning.house = dataclasses.replace(morning.house, registry=Registry([*morning.house.registry, made]))
    morning.lay("asker", "q1", "q2", "q3")
    for kind in KINDS:
        morning.lay(kind, "kettle", "toaster")
    morning.decide(morning.listed(kind="draft")[0], "later", TERMINAL)
    whole = morning.listed()
    assert [item.split(".")[0] for item in whole[:3]] == ["q", "q", "q"]
    assert len(whole) == len(set(whole)) == 11
    for limit in (1, 2, 3, 4, 10, 11):
        seen: list[str] = []
        cursor = None
        while True:
            page = list_items(morning.house, Filters(), limit, cursor)
            seen += [item["id"] for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.items) == limit
        assert seen == whole


BAD = ["AAAA", "bnVsbA", "W10", "_-_-", "WyJkcmFmdCIsIDFd", "WyJ4Il0", "WyJkcmFmdCIsMCwwLCIiLDAsMCwieCIsIngiXQ"]


@pytest.mark.parametrize("cursor", BAD)
def test_a_cursor_that_is_not_ours_leads_nowhere(quick_morning: Morning, cursor: str) -> None:
    with pytest.raises(NotFound, match="no page at this cursor"):
        list_items(quick_morning.house, Filters(), 5, cursor)


def test_how_much_is_left(quick_morning: Morning) -> None:
    quick_morning.open(review={"minutes": 2})
    items = quick_morning.lay("listing", "a", "b", "c", "d")
    quick_morning.lay("memo", "long")
    counts = list_items(quick_morning.house, Filters(), 1).counts
    assert (counts.left, counts.total, counts.minutes_left, counts.later) == (5, 5, 8.0, 0)
    quick_morning.decide(items[0], "approve", TERMINAL)
    quick_morning.decide(items[1], "later", TERMINAL, reason="tomorrow")
    counts = list_items(quick_morning.house, Filters(playbook="listing"), 1).counts
    assert (counts.left, counts.total, counts.minutes_left, counts.later) == (2, 3, 4.0, 1)
    assert list_items(quick_morning.house, Filters(tenant="other"), 1).counts.total == 0


def test_a_line_says_who_is_there_and_until_when(quick_morning: Morning) -> None:
    quick_morning.open(review={"decide_by": "12:00"}, release={"to": "folder", "path": "listings/{name}.json"})
    item = quick_morning.one()
    lease(quick_morning.house, item, TERMINAL)
    [line] = list_items(quick_morning.house, Filters()).items
    assert line == {
        "id": item, "kind": "draft", "playbook": "listing", "title": "Listing", "tenant": "main", "priority": "P2",
        "version": 1, "hash": quick_morning.card(item)["hash"], "risk": "customer", "passed": True,
        "sentence": "Write “Listing: kettle” to folder, listings/kettle.json",
        "why_here": "customers will see it, so each is read", "laid_at": "2026-01-31T22:00:00Z",
        "deadline": "2026-02-01T12:00:00Z", "later_until": None, "leased_by": "cli:test",
    }  # fmt: skip
    quick_morning.clock.advance(301)
    assert list_items(quick_morning.house, Filters()).items[0]["leased_by"] is None


def test_the_planner_hears_how_long_people_take(morning: Morning) -> None:
    morning.open(review={"minutes": 2})
    items = morning.lay("listing", *(f"n{number}" for number in range(6)))
    took = [60, 90, 600, 3 * 3600, 30, None]
    for item, seconds in zip(items[:5], took, strict=False):
        opened = morning.clock.now()
        morning.clock.advance(seconds or 0)
        morning.decide(item, "approve", TERMINAL, opened_at=opened)
    with morning.house.db.read() as conn:
        assert observed_minutes(conn, "listing") == 1.25  # of those that were no lunch break
        assert observed_minutes(conn, "advert") is None
        minutes = ReviewMinutes(morning.house, conn)
        assert [minutes.of(kind) for kind in ("listing", "advert", "memo", "gone")] == [1.25, 2.0, 0.0, 3.0]
        assert minutes.on_the_desk() == (1, 1.25)
    assert list_items(morning.house, Filters(), 1).counts.minutes_left == 1.2


def test_what_has_no_playbook_any_more_is_listed_all_the_same(quick_morning: Morning) -> None:
    item = quick_morning.one()
    quick_morning.house = dataclasses.replace(quick_morning.house, registry=Registry([]))
    [line] = list_items(quick_morning.house, Filters()).items
    assert (line["id"], line["title"], line["sentence"]) == (item, "listing", f"Decide on {item}")
    assert quick_morning.card(item)["sentence"] == f"Decide on {item}"
