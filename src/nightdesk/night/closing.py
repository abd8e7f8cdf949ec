"""The end of a night: nothing of it is under way any more, and what it came to is written down."""

from nightdesk.failpoints import failpoint
from nightdesk.house import House
from nightdesk.night.figures import figures_of
from nightdesk.night.schedule import Night
from nightdesk.night.steps import take_step
from nightdesk.night.stopping import stop_all


def close_when_still(house: House, night: Night) -> bool:
    """Send home what is left; once nothing is under way, count and close."""
    if not stop_all(house, night):
        return False
    now = house.clock.now()
    with house.db.write() as conn:
        figures = figures_of(house, conn, night, now)
        closed = take_step(
            house, conn, now, night, "closed", cause="nothing of it is under way", figures=figures, closed_at=now
        )
    failpoint("night-closed-and-kept")
    return closed
