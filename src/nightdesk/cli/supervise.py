"""Keeping processes alive: what dies is started again, after a pause that grows while it keeps dying young."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from nightdesk.cli.lifeline import Lifeline
from nightdesk.cli.serve import OUTAGE
from nightdesk.errors import NightdeskError
from nightdesk.watch.logs import get_logger

_LONGEST_PAUSE = 30.0
_YOUNG_SECONDS = 5.0
_AT_ONCE_SECONDS = 30.0
_FALSE_STARTS = 5
GRACE_SECONDS = 10.0

log = get_logger(__name__)


def nightdesk(*arguments: str) -> list[str]:
    """The command line of a process of ours. -P keeps files in the house from passing for modules of Python's."""
    return [sys.executable, "-P", "-m", "nightdesk.cli", *arguments]


class Child:
    """One process under supervision. `tend` is called over and over, and never waits."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        answers: Callable[[], bool] | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.ready = False
        self._command = command
        self._answers = answers
        self._environment = dict(os.environ if environment is None else environment)
        self._clock = clock
        self.process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None
        self._started = 0.0
        self._next_start = 0.0
        self._died_young = 0
        self._false_starts = 0

    def tend(self) -> None:
        """Start the process if it is due, see whether it is ready, and arrange for a new start if it ended."""
        now = self._clock()
        if self.process is None:
            if now >= self._next_start:
                self._start(now)
            return
        if not self.ready:
            self._see_whether_ready()
        if (code := self.process.poll()) is not None:
            self._bury(code, now)

    def _start(self, now: float) -> None:
        self._lifeline = Lifeline()
        line = self._lifeline.descriptor
        self.process = subprocess.Popen(
            [*self._command, "--lifeline", str(line)],
            stdin=subprocess.DEVNULL,
            pass_fds=(line,),
            process_group=0,  # Ctrl-C is for the supervisor, which passes it on
            env=self._environment,
        )
        self._lifeline.handed_over()
        self._started = now
        self.ready = False

    def _see_whether_ready(self) -> None:
        if self._lifeline and self._lifeline.is_ready() and (self._answers is None or self._answers()):
            self.ready = True
            self._false_starts = 0

    def _bury(self, code: int, now: float) -> None:
        lived = now - self._started
        if not self.ready and lived < _AT_ONCE_SECONDS and code != OUTAGE:
            self._false_starts += 1
        if self._false_starts >= _FALSE_STARTS:
            self.let_go()
            raise NightdeskError(
                f"The {self.name} ended at once {_FALSE_STARTS} times running ({_how(code)}); see its words above.",
                "Run: nightdesk doctor",
            )
        self._died_young = self._died_young + 1 if lived < _YOUNG_SECONDS or not self.ready else 1
        pause = min(_LONGEST_PAUSE, 2.0 ** (self._died_young - 1))
        self.let_go()
        self._next_start = now + pause
        log.warning(f"The {self.name} ended and is started again.", action="restart", reason=_how(code), pause_s=pause)

    def let_go(self) -> None:
        """Forget the process, which has ended."""
        if self._lifeline:
            self._lifeline.close()
        self.process, self._lifeline, self.ready = None, None, False


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def stop(children: Sequence[Child], grace_seconds: float = GRACE_SECONDS) -> None:
    """SIGTERM to all of them, and SIGKILL to those that are still there when the time is over."""
    processes = [child.process for child in children if child.process is not None]
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace_seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for child in children:
        child.let_go()
