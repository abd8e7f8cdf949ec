"""The real program as processes of its own, which a test may kill, pause and continue."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

PROGRAM = str(Path(sys.executable).with_name("nightdesk"))


def wait_until(condition: Callable[[], object], timeout: float, what: str) -> None:
    """Look every 50 ms until the condition holds; after `timeout` seconds the test fails, naming `what` it awaited."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"After {timeout} s still not true: {what}")
        time.sleep(0.05)


class Running:
    """A process that was started; what it writes goes to the file `log`."""

    def __init__(self, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self._popen = popen
        self.log = log

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """kill -9, of this process alone."""
        self._popen.kill()
        self._popen.wait()

    def terminate(self) -> None:
        self._popen.terminate()

    def pause(self) -> None:
        self._popen.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._popen.send_signal(signal.SIGCONT)

    def wait(self, timeout: float) -> int:
        """The exit code; still running after `timeout` seconds fails the test."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Still running after {timeout} s; it wrote:\n{self.output()[-4000:]}") from None


class Processes:
    """Starts the program in houses, and leaves nothing running at `close`."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[Running] = []
        self._houses: set[Path] = set()

    def start(self, house_folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Running:
        """`nightdesk ARGUMENTS` in the background, e.g. start(house_folder, "worker")."""
        log = self._logs / f"{len(self._started)}-{arguments[0]}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [PROGRAM, *arguments],
                cwd=house_folder,
                env=environment(house_folder, env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running = Running(popen, log)
        self._started.append(running)
        self._houses.add(house_folder)
        return running

    def run(
        self, house_folder: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 30
    ) -> "subprocess.CompletedProcess[str]":
        """`nightdesk ARGUMENTS` to its end, whatever its exit code."""
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=house_folder,
            env=environment(house_folder, env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def close(self) -> None:
        for running in self._started:
            running.kill()
        while living := [process for house in self._houses for process in _inhabitants(house)]:
            for process in living:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(living, timeout=5)


def environment(house_folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without what would set up the program or its Postgres, with the house, and with what the test adds."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NIGHTDESK_", "PG"))}
    return inherited | {"NIGHTDESK_HOME": str(house_folder)} | dict(extra or {})


def _inhabitants(house_folder: Path) -> list[psutil.Process]:
    """The processes whose environment names the house: those that we started, and all that these started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            home = process.environ().get("NIGHTDESK_HOME")
            if home == str(house_folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
