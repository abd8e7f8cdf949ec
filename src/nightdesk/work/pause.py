"""When a leg stops short of its end: something in it must wait long, and nothing in it is still at work."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from nightdesk.model.rest import step_name
from nightdesk.work.context import StepInfo, step_in_progress

# Between two steps a playbook's own code runs for a moment; only when it too stands still does the leg park.
_SETTLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Wait:
    """What a parked task waits for, and the moment at which it stops waiting for it. `call` is a call to a model."""

    kind: str
    until: datetime | None = None
    call: str | None = None
    why: str = "parked"


class Pause:
    """Also what a call to a model asks of its leg (`nightdesk.model.rest`)."""

    def __init__(self, held_up: Callable[[], Wait | None]) -> None:
        self.waits: list[Wait] = []
        self.error: BaseException | None = None
        self._held_up = held_up
        self._in_progress = 0
        self._waits_in: Counter[StepInfo] = Counter()
        self._changes = 0
        self._changed = asyncio.Event()

    async def checkpoint(self) -> None:
        """Between two steps: if the switch is at stop, or the night is over, this is where the leg ends."""
        if held := self._held_up():
            await self.wait(held.kind, why=held.why)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A step is in progress; the leg does not park under it."""
        self._count(+1)
        try:
            yield
        finally:
            self._count(-1)

    async def wait(
        self, kind: str, until: datetime | None = None, *, call: str | None = None, why: str = "parked"
    ) -> NoReturn:
        """Never returns: the leg ends here, and the next one comes this way again."""
        wait = Wait(kind, until, call, why)
        with self._resting(wait):
            await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def stop(self, error: BaseException) -> NoReturn:
        """Never returns: the leg ends now, as failed with this error."""
        self.error = self.error or error
        self._count(0)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    def step(self) -> str:
        info = step_in_progress.get()
        return step_name(info.name, info.occurrence) if info else ""

    async def reached(self) -> None:
        """Return once something waits and everything else has come to rest, or once the leg must stop."""
        while self.error is None:
            await self._changed.wait()
            seen = self._changes
            await asyncio.sleep(_SETTLE_SECONDS)
            if self.waits and not self._in_progress and seen == self._changes:
                return
            if seen == self._changes:
                self._changed.clear()

    @contextmanager
    def _resting(self, wait: Wait) -> Iterator[None]:
        """While something in a step waits, the step is not at work. If the wait is given up, it is again."""
        step = step_in_progress.get()
        self.waits.append(wait)
        self._rest(step, +1)
        try:
            yield
        finally:
            self.waits.remove(wait)
            self._rest(step, -1)

    def _rest(self, step: StepInfo | None, change: int) -> None:
        rested = step is not None and self._waits_in[step] > 0
        if step is not None:
            self._waits_in[step] += change
        rests = step is not None and self._waits_in[step] > 0
        self._count(int(rested) - int(rests))

    def _count(self, change: int) -> None:
        self._in_progress += change
        self._changes += 1
        self._changed.set()
