"""When a leg stops short of its end: something in it must wait long, and nothing in it is still at work."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

# Between two steps a playbook's own code runs for a moment; only when it too stands still does the leg park.
_SETTLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Wait:
    """What a parked task waits for, and the moment at which it stops waiting for it."""

    kind: str
    until: datetime | None = None


class Pause:
    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self.waits: list[Wait] = []
        self._is_stopped = is_stopped
        self._in_progress = 0
        self._changes = 0
        self._changed = asyncio.Event()

    async def checkpoint(self) -> None:
        """Between two steps: if the switch is at stop, this is where the leg ends."""
        if self._is_stopped():
            await self.park(Wait("switch"))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A step is in progress; the leg does not park under it."""
        self._in_progress += 1
        self._note()
        try:
            yield
        finally:
            self._in_progress -= 1
            self._note()

    async def park(self, wait: Wait) -> NoReturn:
        """Never returns: the leg ends here, and the next one comes this way again."""
        self.waits.append(wait)
        self._note()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def reached(self) -> None:
        """Return once something waits and everything else has come to rest."""
        while True:
            await self._changed.wait()
            seen = self._changes
            await asyncio.sleep(_SETTLE_SECONDS)
            if self.waits and not self._in_progress and seen == self._changes:
                return
            if seen == self._changes:
                self._changed.clear()

    def _note(self) -> None:
        self._changes += 1
        self._changed.set()
