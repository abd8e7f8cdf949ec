"""A child process under supervision, with a clock that the test moves."""

import sys

import pytest

from nightdesk.cli.supervise import Child, stop
from nightdesk.errors import NightdeskError
from tests.support.processes import wait_until

_READY = "import socket, sys; socket.socket(fileno=int(sys.argv[2])).send(b'1');"


class _Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _child(code: str, clock: _Time, ready: bool = True) -> Child:
    return Child("worker", [sys.executable, "-c", (_READY if ready else "") + code], clock=clock)


def _tend_until_it_ends(child: Child) -> None:
    def ended() -> bool:
        child.tend()
        return child.process is None

    wait_until(ended, 10, "the process has ended")


def _tend_until_ready(child: Child) -> None:
    def ready() -> bool:
        child.tend()
        return child.ready

    wait_until(ready, 10, "the process is ready")


def test_a_process_that_lived_is_started_again_after_a_second() -> None:
    clock = _Time()
    child = _child("sys.stdin.read(); import time; time.sleep(60)", clock)
    _tend_until_ready(child)
    clock.now += 60
    assert child.process is not None
    child.process.kill()
    _tend_until_it_ends(child)
    clock.now += 0.9
    child.tend()
    assert child.process is None
    clock.now += 0.2
    _tend_until_ready(child)
    stop([child])


def test_the_pause_grows_to_half_a_minute_while_it_dies_young() -> None:
    clock = _Time()
    child = _child("sys.exit(1)", clock)
    pauses = []
    for _ in range(8):
        _tend_until_it_ends(child)
        before = clock.now
        while child.process is None:
            clock.now += 0.5
            child.tend()
        pauses.append(clock.now - before)
    stop([child])
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_five_false_starts_running_are_enough() -> None:
    clock = _Time()
    child = _child("import sys; sys.exit(3)", clock, ready=False)
    for _ in range(4):
        _tend_until_it_ends(child)
        clock.now += 60
    with pytest.raises(NightdeskError) as refusal:
        _tend_until_it_ends(child)
    assert refusal.value.problem.startswith("The worker ended at once 5 times running (exit code 3)")
    assert child.process is None


def test_an_outage_of_the_database_is_no_false_start() -> None:
    clock = _Time()
    child = _child("import sys; sys.exit(75)", clock, ready=False)
    for _ in range(7):
        _tend_until_it_ends(child)
        clock.now += 60
    assert child.process is None


def test_stopping_ends_a_process_that_will_not_listen() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    child = _child("import time; time.sleep(60)", _Time())
    deaf = Child("worker", [sys.executable, "-c", f"{stubborn}{_READY}import time; time.sleep(60)"])
    for one in (child, deaf):
        _tend_until_ready(one)
    processes = [child.process, deaf.process]
    stop([child, deaf], grace_seconds=0.5)
    assert [process.returncode for process in processes if process] == [-15, -9]
