"""How far a night is, as the live view shows it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from nightdesk.canonical import Json
from nightdesk.cli.night_view import Wall, headline
from nightdesk.guard.breakers import latch
from nightdesk.night.progress import Part, look
from nightdesk.work import Desk
from tests.night.keeper import Keeper

_NIGHT = "2026-11-30"


async def _asks_once(order: Any, desk: Desk) -> Json:
    return await desk.ask("Go on?", ["yes"]) if order.name == "asks" else None


def test_the_progress_of_a_night(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.set(budget={"night": "5.00"})
    keeper.have(_asks_once)
    keeper.have_also("report")
    jobs = keeper.add("a", "b", "asks")
    keeper.add("r", "s", playbook="report")
    keeper.look("2026-11-30T17:00:00")
    planned = look(keeper.house, _NIGHT)
    assert (planned.state, planned.left, planned.rate, planned.expected_at) == ("planned", 5, 0, None)
    keeper.look("2026-12-01T01:00:00")
    keeper.clock.advance(60)
    keeper.run_together([leg for leg in keeper.due() if leg[0] in jobs])
    with keeper.house.db.write() as conn:
        latch(keeper.house.db, conn, keeper.clock.now(), "openai", "*", "*", "the key was refused")
    now = look(keeper.house, _NIGHT)
    assert now.parts == [
        Part("job", done=2, review=0, dead=0, working=0, waiting=1, left=1),
        Part("report", done=0, review=0, dead=0, working=0, waiting=0, left=2),
    ]
    # Three left, at two a minute.
    assert (now.rate, now.left, now.expected_at) == (2, 3, keeper.clock.now() + timedelta(seconds=90))
    assert (now.cost_usd, now.cap_usd, now.breakers) == (Decimal(0), Decimal(5), ["openai * *: latched"])
    assert headline(now, Wall("Europe/Berlin")) == (
        "2 done, 0 on the desk, 3 left, $0.0000 of $5.00, 2 a minute, through by about 02:02, openai * *: latched"
    )
