"""The worker's judge: renews its slot, and ends the process when it can no longer be trusted to work.

What it trusts: the database's answer on a fresh connection. While there is none, the database is away and
everybody waits. When there is one, but the worker's own connections have carried nothing for a minute, they
are silent for ever; only a new process gets rid of them. Ending is by `os._exit`: crash and restart is the
path that is tested most.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from nightdesk.engine.services import Service
from nightdesk.engine.slots import Slot, renew
from nightdesk.store import Database
from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.watchdog")
SLOT_LOST = 75
STALLED = 70


class Watchdog:
    """`stalls` are questions about the worker, each answering for how many seconds nothing has moved."""

    def __init__(
        self,
        fresh: Database,
        slot: Slot,
        *,
        lease_seconds: int,
        stall_seconds: int,
        stalls: dict[str, Callable[[], float]],
        end: Callable[[int, str], None] | None = None,
    ) -> None:
        self._fresh = fresh
        self._slot = slot
        self._lease_seconds = lease_seconds
        self._stall_seconds = stall_seconds
        self._stalls = stalls
        self._end = end or end_process
        self._steady_since: float | None = None
        self._last_renewal = 0.0
        # After an outage every worker must renew before another trusts the leases again: no growing pauses here.
        self.service = Service("watchdog", lease_seconds / 3, self.check, patient=False)

    def check(self) -> None:
        now = time.monotonic()
        try:
            held = renew(self._fresh, self._slot, self._lease_seconds)
        except Exception:
            self._steady_since = None
            raise
        if not held:
            self._end(SLOT_LOST, f"slot {self._slot.name} was given to another worker while this one was away")
        # A pause of this process, or of the database, is no proof of anybody's death.
        if self._steady_since is None or now - self._last_renewal > self._lease_seconds:
            self._steady_since = now
        self._last_renewal = now
        for name, stalled_for in self._stalls.items():
            if (seconds := stalled_for()) > self._stall_seconds:
                self._end(STALLED, f"{name} has not moved for {seconds:.0f} s although the database answers")

    def trusts_leases(self) -> bool:
        """Whether this worker has renewed for a whole lease without a gap, so that others could have as well."""
        steady = self._steady_since
        return steady is not None and time.monotonic() - steady >= self._lease_seconds


class Heartbeat:
    """Calls `beat` in its own thread; answers for how long it has not come back."""

    def __init__(self, name: str, beat: Callable[[], object], seconds: float = 5) -> None:
        self._began: float | None = None
        self._beat = beat
        self.service = Service(name, seconds, self._timed)

    def stalled_for(self) -> float:
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _timed(self) -> None:
        self._began = time.monotonic()
        try:
            self._beat()
        finally:
            self._began = None


def end_process(code: int, why: str) -> NoReturn:
    _log.error("The worker ends itself.", action="end", reason=why, exit_code=code)
    sys.stderr.flush()
    os._exit(code)
