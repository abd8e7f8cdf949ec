"""The queries of the pages run on both databases, in a house where all that they ask for has happened."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from nightdesk.work import Desk
from nightdesk.work.tasks import answer
from tests.support.hand import START, Hand
from tests.support.pages import PAGES, blocks_of

_QUERIES = [(page, query) for page in PAGES for query in blocks_of(page, "sql")]


@pytest.fixture
def hand(house_folder: Path) -> Iterator[Hand]:
    """A house with a task that is done, one in review, a dead one, and one whose code changed underway."""
    clock = SetClock(START)
    house = open_house(house_folder, clock=clock)
    hand = Hand(house, clock)
    hand.submit("drill", {"name": "first"})
    hand.submit("drill", {"name": "second", "fail": "person"})
    hand.submit("drill", {"name": "third", "fail": "bug", "fail_times": 9})
    _change_the_code(hand)
    hand.settle()
    yield hand
    house.close()


def _change_the_code(hand: Hand) -> None:
    async def before(order: Any, desk: Desk) -> None:
        await desk.step("count", len, order.name)
        await desk.ask("go on?", ["yes"])

    async def after(order: Any, desk: Desk) -> None:
        await desk.ask("go on?", ["yes"])

    hand.have(before)
    changed = hand.submit("job", {"name": "a"})
    hand.run_all()
    hand.have(after)
    answer(hand.house, changed.id, "yes", actor="test")


@pytest.mark.parametrize(("page", "query"), _QUERIES, ids=lambda part: part if part.endswith(".md") else "")
def test_the_query_runs_and_finds_something(page: str, query: str, hand: Hand) -> None:
    with hand.house.db.read() as conn:
        assert conn.execute(sa.text(query)).all()


def test_the_paper_trail_has_three_queries() -> None:
    assert len(blocks_of("docs/paper-trail.md", "sql")) == 3
