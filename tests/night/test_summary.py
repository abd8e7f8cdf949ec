"""In the morning somebody is told what the night came to, once."""

from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import GiveUp, NotFound
from nightdesk.night.summary import closed_night, summarise_due, summary_of
from nightdesk.night.watches import watches
from nightdesk.store import notices
from nightdesk.work import Desk
from tests.night.keeper import Keeper
from tests.support.processes import wait_until

_NIGHT = "2026-11-30"


async def _by_name(order: Any, _desk: Desk) -> Json:
    if order.name == "bad":
        raise GiveUp("No.")
    return {"text": order.name}


@pytest.fixture
def told(keeper: Keeper) -> Keeper:
    """A night in which two drafts were made, one task died, and one thing was simply done."""
    keeper.have(_by_name, risk="customer", sla="1h")
    keeper.have_also("small")
    keeper.add("good", "better", "bad")
    keeper.add("s", playbook="small")
    for moment in ("2026-11-30T17:00:00", "2026-12-01T01:00:00"):
        keeper.look(moment)
    keeper.run_all()
    keeper.look("2026-12-01T05:00:00")
    return keeper


def _messages(keeper: Keeper) -> list[Any]:
    with keeper.house.db.read() as conn:
        return list(conn.execute(sa.select(notices).where(notices.c.kind == "apprise")).all())


def test_the_summary_says_what_came_of_the_night_and_what_to_do(told: Keeper) -> None:
    heading, text = summary_of(told.night(_NIGHT))
    assert heading == "Nightdesk: the night of 2026-11-30"
    assert text.splitlines() == [
        "New: 4 | Done: 1 | Exceptions: 1",
        "Breaches: 0 P0, 0 P1, 3 P2",
        "Action: approve 2 drafts and assign 1 exception",
        "Cost: $0.000000, with $0.000000 saved by waiting",
    ]


def test_it_goes_out_at_its_time_and_once(told: Keeper) -> None:
    told.set(notify={"urls": ["json://chat", "mailto://somebody"]})
    told.clock.advance(2.5 * 3600 - 1)
    assert (summarise_due(told.house), _messages(told)) == (0, [])
    told.clock.advance(1)
    assert (summarise_due(told.house), summarise_due(told.house)) == (1, 0)
    assert told.night(_NIGHT)["summarised_at"] == told.clock.now()
    messages = _messages(told)
    assert [message.target.partition("#")[0] for message in messages] == ["json", "mailto"]
    assert {message.payload["body"] for message in messages} == {summary_of(told.night(_NIGHT))[1]}


def test_a_house_without_chat_finds_it_in_a_file(told: Keeper) -> None:
    """By the services that both kinds of process run."""
    told.clock.advance(3 * 3600)
    services = watches(told.house)
    file = told.house.home / "summary.txt"
    for service in services:
        service.start()
    try:
        wait_until(file.exists, 30, "the summary is there")
    finally:
        for service in services:
            service.stop()
    assert "approve 2 drafts" in file.read_text(encoding="utf-8")


def test_what_waits_is_told_with_its_reason(quick_keeper: Keeper) -> None:
    keeper = quick_keeper

    async def ask(_order: Any, desk: Desk) -> Json:
        return await desk.ask("Go on?", ["yes"])

    keeper.have(ask)
    keeper.add("a", "b")
    for moment in ("2026-11-30T17:00:00", "2026-12-01T01:00:00"):
        keeper.look(moment)
    keeper.step()
    keeper.look("2026-12-01T05:00:00")
    assert "Still waiting: 1 not started, 1 person" in summary_of(keeper.night(_NIGHT))[1]


def test_the_last_night_or_the_one_that_is_named(told: Keeper) -> None:
    told.look("2026-12-01T17:00:00")
    assert closed_night(told.house, None)["name"] == _NIGHT
    assert closed_night(told.house, _NIGHT)["name"] == _NIGHT
    with pytest.raises(NotFound, match="no night 2026-12-01 that is closed"):
        closed_night(told.house, "2026-12-01")
