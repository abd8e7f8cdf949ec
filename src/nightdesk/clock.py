"""The one place that time enters through. Tests set it; nothing in them sleeps."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The current moment, with a time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Come back when so much time has passed."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SetClock:
    """A clock that stands still until it is told to move. Who sleeps by it moves it."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def move_to(self, moment: datetime) -> None:
        """Never back."""
        self._now = max(self._now, moment)

    async def sleep(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))
        await asyncio.sleep(0)
