"""The calendar of nights: when one is cut off, opens, stops and is told of, in the time zone of the house.

A night has the date of its evening. Its four moments follow each other on the clock on the wall: the start is not
before the cut-off, the stop is after the start, the summary is not before the stop. What the clock skips when summer
begins is taken as an hour later; of what it shows twice when summer ends, the first is meant. A window that lies wholly
in the hour that is skipped is empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from nightdesk.settings import NightSettings

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Further ahead there is no night if there is none until then: no day is named, or all of them are holidays.
_DAYS_AHEAD = 800


@dataclass(frozen=True, slots=True)
class Window:
    """One night: `name` is the date of its evening, the moments are in UTC."""

    name: str
    cutoff: datetime
    start: datetime
    stop: datetime
    summary: datetime

    def is_open(self, at: datetime) -> bool:
        return self.start <= at < self.stop


def window_of(night: NightSettings, evening: date) -> Window:
    """The moments of the night that begins on this date, whether it is one of the house's or not."""
    start_day = evening + timedelta(days=night.start < night.cutoff)
    stop_day = start_day + timedelta(days=night.stop <= night.start)
    summary_day = stop_day + timedelta(days=night.summary < night.stop)
    zone = ZoneInfo(night.zone)
    cutoff = _at(evening, night.cutoff, zone)
    start = max(cutoff, _at(start_day, night.start, zone))
    stop = max(start, _at(stop_day, night.stop, zone))
    summary = max(stop, _at(summary_day, night.summary, zone))
    return Window(evening.isoformat(), cutoff, start, stop, summary)


def next_night(night: NightSettings, at: datetime) -> Window | None:
    """The night that work of this moment is for: the first that is cut off later. None if no day is a night's."""
    return next((window for window in _nights(night, at) if window.cutoff > at), None)


def running_nights(night: NightSettings, at: datetime) -> list[Window]:
    """The nights that were cut off and have not stopped yet: at most one, unless nights are longer than days."""
    cut_off = takewhile(lambda window: window.cutoff <= at, _nights(night, at))
    return [window for window in cut_off if at < window.stop]


def next_window(night: NightSettings, at: datetime) -> Window | None:
    """The first night that opens later."""
    return next((window for window in _nights(night, at) if window.start > at), None)


def _nights(night: NightSettings, at: datetime) -> Iterator[Window]:
    """The house's nights from about this moment on; one that began two evenings ago may not have stopped."""
    today = at.astimezone(ZoneInfo(night.zone)).date()
    for ahead in range(-2, _DAYS_AHEAD):
        evening = today + timedelta(days=ahead)
        if _DAYS[evening.weekday()] in night.days and evening not in night.holidays:
            yield window_of(night, evening)


def _at(day: date, wall: str, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.fromisoformat(wall), zone).astimezone(UTC)
