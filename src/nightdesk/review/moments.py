"""When a morning begins, and when a decision is due, by the clock on the house's wall."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from nightdesk.settings import NightSettings


def morning_of(night: NightSettings, at: datetime) -> datetime:
    """When the day of this moment began."""
    zone = ZoneInfo(night.zone)
    return datetime.combine(at.astimezone(zone).date(), time(), zone).astimezone(UTC)


def next_morning(night: NightSettings, at: datetime) -> datetime:
    """When people come in on the next day: at the hour of the night's summary."""
    return _on_day(night, at, night.summary, days=1)


def next_time(night: NightSettings, at: datetime, wall: str) -> datetime:
    """The next moment at which the wall shows this time."""
    today = _on_day(night, at, wall)
    return today if today > at else _on_day(night, at, wall, days=1)


def _on_day(night: NightSettings, at: datetime, wall: str, days: int = 0) -> datetime:
    zone = ZoneInfo(night.zone)
    day = at.astimezone(zone).date() + timedelta(days=days)
    return datetime.combine(day, time.fromisoformat(wall), zone).astimezone(UTC)
