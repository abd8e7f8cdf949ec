"""When an answer is still of use: nights end, and the calendar of the house says when."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from nightdesk.settings import NightSettings

# Why a call is not to be put into another batch of the same night.
CALLED_BACK = "last call: it was called back from the batch lane"
# A provider may take ten minutes to cancel a batch, and seldom does.
_CANCEL_SECONDS = 300.0
_SLACK = 1.2


def hard_stop(night: NightSettings, now: datetime) -> datetime:
    """The next hard stop after this moment."""
    return _next(night.stop, night.zone, now)


def last_call(night: NightSettings, deadline: datetime, seconds_live: float = 0.0) -> datetime:
    """When what is out is called back: as long before the deadline as the settings say, or as long as it takes to
    cancel it and to ask the rest live, if that is longer."""
    needed = max(night.last_call_minutes * 60, _CANCEL_SECONDS + seconds_live * _SLACK)
    return deadline - timedelta(seconds=needed)


def next_start(night: NightSettings, now: datetime) -> datetime:
    """The next start of a night's window after this moment."""
    return _next(night.start, night.zone, now)


def is_open(night: NightSettings, now: datetime) -> bool:
    """Whether it is night: the window ends before the next one opens."""
    return hard_stop(night, now) <= next_start(night, now)


def _next(wall: str, zone: str, now: datetime) -> datetime:
    """The next time that the clock on the wall shows this. An hour that a clock change skips is taken as the next."""
    local = now.astimezone(ZoneInfo(zone))
    today, tomorrow = (_at(local.date() + timedelta(days=days), wall, zone) for days in (0, 1))
    return today if today > now else tomorrow


def _at(day: date, wall: str, zone: str) -> datetime:
    hour, minute = (int(part) for part in wall.split(":"))
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=ZoneInfo(zone)).astimezone(ZoneInfo("UTC"))
