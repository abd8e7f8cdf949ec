"""The way from async endpoints into the rooms, which are synchronous: by thread, and not for ever."""

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from nightdesk.errors import Unavailable
from nightdesk.store import is_outage

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS = 5.0
_THREADS = 24
_MOST_STUCK = 16


class Rooms:
    """Calls in threads. One that hangs on a silent connection is given up, and counted until it ends."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._limiter = anyio.CapacityLimiter(_THREADS)
        self._numbers = itertools.count()
        self._running: dict[int, float] = {}

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. Unavailable: the database is away, or does not answer in time."""
        return await self.call_within(self._patience, partial(work, *args, **kwargs))

    async def call_within(self, seconds: float, work: Callable[[], T]) -> T:
        if self._stuck() >= _MOST_STUCK:
            raise _silent()
        try:
            with anyio.fail_after(seconds):
                task = partial(self._counted, work)
                return await anyio.to_thread.run_sync(task, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError:
            raise _silent() from None
        except Exception as error:
            if is_outage(error):
                raise Unavailable("The database is not answering; nothing was stored.") from error
            raise

    def stuck_for(self) -> float:
        """Seconds for which the oldest call has been running."""
        return time.monotonic() - min(list(self._running.values()), default=time.monotonic())

    def _stuck(self) -> int:
        limit = time.monotonic() - self._patience
        return sum(since < limit for since in list(self._running.values()))

    def _counted(self, work: Callable[[], T]) -> T:
        number = next(self._numbers)
        self._running[number] = time.monotonic()
        try:
            return work()
        finally:
            del self._running[number]


def _silent() -> Unavailable:
    return Unavailable("The database did not answer in time; whether this was stored will show when it is back.")
