"""Small jobs that go on beside the legs: one thread each, started and stopped in one way."""

import threading
import time
from collections.abc import Callable

from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.service")
_LONGEST_PAUSE = 30.0


class Service:
    """Calls `job` every `seconds`. A failure is logged and the job tried again, after a pause that grows.

    The pause grows to 30 s; `patient=False` keeps it as it is, for what must not miss its moment.
    """

    def __init__(self, name: str, seconds: float, job: Callable[[], object], *, patient: bool = True) -> None:
        self.name = name
        self.last_success = time.monotonic()
        self._seconds = seconds
        self._job = job
        self._longest_pause = max(_LONGEST_PAUSE, seconds) if patient else seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"service-{name}", daemon=True)

    def start(self) -> None:
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self, wait_seconds: float = 5) -> None:
        """Stop after the present call. Stopping twice, or before the start, does nothing."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=wait_seconds)

    def _loop(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                self._job()
            except Exception as error:
                pause = min(max(self._seconds, pause * 2), self._longest_pause)
                _log.warning(
                    "A service failed and will be tried again.",
                    action=self.name,
                    error=str(error),
                    retry_in_s=round(pause, 1),
                )
            else:
                self.last_success = time.monotonic()
                pause = self._seconds
