"""The queries of the pages run on both databases, in a house where all that they ask for has happened."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from anthropic import AsyncAnthropic

from nightdesk.clock import SetClock
from nightdesk.guard.breakers import reset
from nightdesk.house import open_house
from nightdesk.model.simulator import Simulator, environment, running
from nightdesk.work import Desk
from nightdesk.work.tasks import answer
from tests.model.asking import AskingHouse
from tests.support.hand import START, Hand
from tests.support.pages import PAGES, blocks_of

_QUERIES = [(page, query) for page in PAGES for query in blocks_of(page, "sql")]


@pytest.fixture
def hand(house_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hand]:
    """A house with a task that is done, one in review, a dead one, one whose code changed underway, and some that ask
    a model: live after its key was refused, and in a batch that is still out."""
    clock = SetClock(START)
    house = open_house(house_folder, clock=clock)
    with running(Simulator()) as served:
        for name, value in environment(served.url).items():
            monkeypatch.setenv(name, value)
        hand = AskingHouse(house, clock, served)
        hand.submit("drill", {"name": "first"})
        hand.submit("drill", {"name": "second", "fail": "person"})
        hand.submit("drill", {"name": "third", "fail": "bug", "fail_times": 9})
        _change_the_code(hand)
        hand.settle()
        _ask_a_model(hand)
        yield hand
        hand.close_room()
    house.close()


def _ask_a_model(hand: AskingHouse) -> None:
    async def ask(order: Any, desk: Desk) -> None:
        asked: Any = [{"role": "user", "content": order.name}]
        client = AsyncAnthropic(http_client=desk.http_client())
        await client.messages.create(model="claude-haiku-4-5", max_tokens=100, messages=asked)

    hand.have(ask)
    hand.fault("auth", times=1)
    for name in ("one", "two"):
        hand.submit("job", {"name": name})
        hand.settle()
        reset(hand.house.db, hand.clock, "*", why="mended", actor="test")
        hand.settle()
    hand.submit("job", {"name": "three"})
    hand.run_all()
    hand.send_waves()


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


def test_what_calls_hold_and_cost_is_what_the_days_say(hand: Hand) -> None:
    [query] = [query for query in blocks_of("docs/money.md", "sql") if "held_by_calls" in query]
    with hand.house.db.read() as conn:
        sums = conn.execute(sa.text(query)).one()
    assert sums.held_by_calls == sums.held_of_days > 0
    assert sums.cost_of_calls == sums.spent_of_days > 0


def test_the_paper_trail_has_three_queries() -> None:
    assert len(blocks_of("docs/paper-trail.md", "sql")) == 3
