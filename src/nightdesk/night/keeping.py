"""Keeping the nights: each second somebody looks whether one is to be planned, opened, fed, stopped or closed.

Any number of processes may look; each step is taken once, by the first. If that one dies, the next look goes on from
the rows as they are.
"""

from datetime import datetime, timedelta

from nightdesk.calendar import running_nights
from nightdesk.house import House
from nightdesk.night.admission import admit_late
from nightdesk.night.closing import close_when_still
from nightdesk.night.moving import any_of, is_moving
from nightdesk.night.opening import dispatch_due, open_night
from nightdesk.night.planning import make_plan
from nightdesk.night.schedule import Night, nights_under_way, read_night, schedules
from nightdesk.night.stopping import begin_closing
from nightdesk.store import nights, tasks

_LOOK_FOR_MOVEMENT = timedelta(seconds=10)


def keep(house: House) -> None:
    """One look at the calendar, and one at every night that is under way."""
    plan_due(house)
    attend_all(house)


def plan_due(house: House) -> None:
    """Plan the nights that are cut off. One whose cut-off nobody was there for is planned late, until its hard stop."""
    now = house.clock.now()
    for schedule in schedules(house):
        for window in running_nights(schedule.hours, now):
            make_plan(house, schedule.named(window), schedule.playbooks)


def attend_all(house: House) -> None:
    for night in nights_under_way(house):
        attend(house, night)


def attend(house: House, night: Night) -> None:
    """Do for this night what is due now."""
    now = house.clock.now()
    if night["state"] == "planned" and night["starts_at"] <= now < night["stops_at"]:
        open_night(house, night)
        night = read_night(house, night["name"])
    if night["state"] in ("planned", "open"):
        night = _run(house, night, now)
    if night["state"] == "closing":
        close_when_still(house, night)


def _run(house: House, night: Night, now: datetime) -> Night:
    if cause := _why_over(house, night, now):
        begin_closing(house, night, cause)
        return read_night(house, night["name"])
    admit_late(house, night)
    if night["state"] == "open":
        dispatch_due(house, night)
        _note_movement(house, night, now)
    return night


def _why_over(house: House, night: Night, now: datetime) -> str:
    if night["stops_at"] <= now:
        return "the hard stop" if night["opened_at"] else "its time was over before anybody opened it"
    if not night["by_hand"] or night["state"] != "open":
        return ""
    with house.db.read() as conn:
        return "" if any_of(conn, is_moving(night)) else "there is nothing left that it could do"


def _note_movement(house: House, night: Night, now: datetime) -> None:
    """Silence is an alarm: keep in the night's row when something in it moved."""
    seen = night["moved_at"]
    if now - seen < _LOOK_FOR_MOVEMENT:
        return
    with house.db.read() as conn:
        moved = any_of(conn, (tasks.c.night == night["name"]) & (tasks.c.updated_at > seen))
    if moved:
        with house.db.write() as conn:
            conn.execute(nights.update().where(nights.c.name == night["name"]), {"moved_at": now})
