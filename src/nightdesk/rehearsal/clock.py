"""The clock of a rehearsal: it stands still while legs run, and then jumps by the time that they would have taken."""

import asyncio
import time
from collections import defaultdict
from datetime import datetime, timedelta

from nightdesk.clock import SetClock
from nightdesk.model.simulator import Simulator


class JumpingClock(SetClock):
    """Of legs that run together the longest counts: its waits, and its calls one after the other."""

    def __init__(self, start: datetime, simulator: Simulator) -> None:
        super().__init__(start)
        self._simulator = simulator
        self._longest_sleep = 0.0
        self._taken: dict[str, float] = defaultdict(float)
        self._show()

    async def sleep(self, seconds: float) -> None:
        self._longest_sleep = max(self._longest_sleep, seconds)
        await asyncio.sleep(0)

    def takes(self, task_id: str, seconds: float) -> None:
        """Something in this task's leg takes so long."""
        self._taken[task_id] += seconds

    def end_round(self) -> None:
        """The legs have come to rest."""
        longest = self._longest_sleep + max(self._taken.values(), default=0.0)
        self._longest_sleep = 0.0
        self._taken.clear()
        self.move_to(self.now() + timedelta(seconds=longest))

    def move_to(self, moment: datetime) -> None:
        super().move_to(moment)
        self._show()

    def _show(self) -> None:
        """The providers go by the same time."""
        self._simulator.advanced = self.now().timestamp() - time.time()
