"""A night begun by hand: planned and opened at once, until a time of day or the next hard stop."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from nightdesk.calendar import Window, next_night, running_nights, window_of
from nightdesk.errors import Invalid
from nightdesk.guard.purses import night_of
from nightdesk.house import House
from nightdesk.night.keeping import attend
from nightdesk.night.planning import make_plan
from nightdesk.night.schedule import read_night
from nightdesk.settings import NightSettings

_WALL = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def begin_now(house: House, until: str | None, anyway: Mapping[str, str], *, actor: str) -> str:
    """Plan a night for all that is queued and open it; the answer is its name. It ends when nothing is left to do."""
    for name in anyway:
        house.registry.get(name)
    playbooks = [playbook.name for playbook in house.registry if playbook.when.is_nightly]
    window = _window(house, house.clock.now(), until)
    name = make_plan(house, window, playbooks, by_hand=True, anyway=anyway, actor=actor)
    attend(house, read_night(house, name))
    return name


def _window(house: House, now: datetime, until: str | None) -> Window:
    hours = house.settings.night
    stop = _next_hard_stop(hours, now) if until is None else _next_time(hours, now, until)
    # Its evening is that of the budget it is paid from.
    return Window(night_of(house.settings, now), cutoff=now, start=now, stop=stop, summary=stop)


def _next_hard_stop(hours: NightSettings, now: datetime) -> datetime:
    following = next_night(hours, now)
    nights = [*running_nights(hours, now), *([following] if following else [])]
    if not nights:
        raise Invalid("No day is a night's", [("--until", "is not stated")], "State when it ends: --until 06:00")
    return nights[0].stop


def _next_time(hours: NightSettings, now: datetime, wall: str) -> datetime:
    """When the clock on the wall shows this next."""
    if not _WALL.fullmatch(wall):
        raise Invalid("The night cannot begin", [("--until", "must be a time of day such as 06:00")])
    told, today = hours.model_copy(update={"cutoff": wall}), now.astimezone(ZoneInfo(hours.zone)).date()
    shown = (window_of(told, today + timedelta(days=days)).cutoff for days in range(3))
    return next(moment for moment in shown if moment > now)
