"""The drill: what it accepts, and what its steps do. That it survives anything is proved with the real worker."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from nightdesk.errors import AskPerson, Invalid, RetryLater
from nightdesk.playbook import Playbook, When, load_registry
from nightdesk.work.context import StepInfo, step_in_progress


class Straight:
    """A desk that runs each step at once, as the given attempt."""

    def __init__(self, attempt: int = 1) -> None:
        self.attempt = attempt
        self.saved: dict[str, Any] = {}

    async def step(self, name: str, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        token = step_in_progress.set(StepInfo(name, 1, self.attempt))
        try:
            self.saved[name] = await fn(*args)
        finally:
            step_in_progress.reset(token)
        return self.saved[name]


@pytest.fixture
def drill(tmp_path: Path) -> Playbook:
    return load_registry(tmp_path).get("drill")


def run(drill: Playbook, desk: Straight, **values: Any) -> Any:
    assert drill.run is not None
    order = drill.load_input(drill.check_input({"name": "alpha", **values}))
    return drill.check_output(asyncio.run(cast(Any, drill.run(order, desk))))


def test_it_runs_at_once_and_needs_no_review(drill: Playbook) -> None:
    assert (drill.when, drill.risk, drill.key) == (When(kind="now"), "internal", "{name}")
    assert drill.check_input({"name": "alpha"}) == {
        "name": "alpha",
        "steps": 3,
        "step_ms": 0,
        "fail": None,
        "fail_at": 1,
        "fail_times": 1,
    }


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": ""},
        {"name": "a", "steps": 0},
        {"name": "a", "steps": 1001},
        {"name": "a", "steps": "3"},
        {"name": "a", "step_ms": -1},
        {"name": "a", "step_ms": 3_600_001},
        {"name": "a", "fail": "often"},
        {"name": "a", "fail_at": 0},
        {"name": "a", "fail_times": -1},
        {"name": "a", "stps": 3},
    ],
)
def test_it_refuses_what_makes_no_sense(drill: Playbook, values: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        drill.check_input(values)


def test_it_takes_its_steps_and_logs_each(drill: Playbook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "drill.log"
    monkeypatch.setenv("NIGHTDESK_DRILL_LOG", str(log))
    desk = Straight(attempt=2)
    assert run(drill, desk, steps=2, step_ms=1) == {"steps": 2}
    assert desk.saved == {"step-1": {"step": 1, "attempt": 2}, "step-2": {"step": 2, "attempt": 2}}
    assert log.read_text(encoding="utf-8") == "alpha 1 2\nalpha 2 2\n"


@pytest.mark.parametrize(("fail", "error"), [("transient", RetryLater), ("bug", RuntimeError), ("person", AskPerson)])
def test_it_fails_as_told_where_told(drill: Playbook, fail: str, error: type[Exception]) -> None:
    desk = Straight()
    with pytest.raises(error):
        run(drill, desk, fail=fail, fail_at=2)
    assert list(desk.saved) == ["step-1"]


def test_it_fails_as_often_as_told(drill: Playbook) -> None:
    with pytest.raises(RetryLater):
        run(drill, Straight(attempt=2), fail="transient", fail_times=2)
    assert run(drill, Straight(attempt=3), fail="transient", fail_times=2) == {"steps": 3}
    assert run(drill, Straight(), fail="transient", fail_times=0) == {"steps": 3}


def test_it_hangs_until_it_is_cancelled(drill: Playbook) -> None:
    async def cancelled_after_a_turn() -> None:
        assert drill.run is not None
        order = drill.load_input(drill.check_input({"name": "alpha", "fail": "hang"}))
        task = asyncio.ensure_future(drill.run(order, Straight()))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled_after_a_turn())


def test_it_ends_its_process_when_told(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.playbook.test_drill import *;"
        "run(load_registry(Path(sys.argv[1])).get('drill'), Straight(), fail='exit', fail_at=3)"
    )
    log = tmp_path / "drill.log"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "NIGHTDESK_DRILL_LOG": str(log)},
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert log.read_text(encoding="utf-8").splitlines() == ["alpha 1 1", "alpha 2 1", "alpha 3 1"]
