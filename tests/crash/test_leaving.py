"""Workers that are paused, told to leave, or replaced by a newer version."""

import time

import pytest

from nightdesk.engine.watchdog import SLOT_LOST
from nightdesk.guard.switches import set_switch
from tests.support.processes import wait_until
from tests.support.scene import Scene, timed


@pytest.mark.timeout(180)
def test_a_paused_worker_that_was_taken_over_finds_its_writes_refused_and_leaves(scene: Scene) -> None:
    frozen = scene.worker()
    scene.add((f"d{number}" for number in range(20)), steps=6, step_ms=1000)
    scene.wait_for_working(20)
    scene.worker()
    wait_until(lambda: len(scene.completed()) >= 20, 20, "each drill has done a step")
    time.sleep(0.5)  # between two rounds of writes: frozen in one, it would hold SQLite's file lock, as the docs say
    frozen.pause()
    paused_at, before = time.monotonic(), scene.begun()
    wait_until(lambda: len(scene.begun() - before) >= 20, 30, "the other has taken over")
    assert time.monotonic() - paused_at <= 30
    frozen.go_on()
    code, took = timed(frozen, 15)
    assert (code, took < 10) == (SLOT_LOST, True)
    scene.wait_for({"done": 20}, 60)
    stale = [step for step, count in scene.begun().items() if count > 2]
    assert not stale, f"begun more than twice: {stale}"


@pytest.mark.timeout(120)
def test_sigterm_finishes_or_hands_back_within_ten_seconds(scene: Scene) -> None:
    leaving = scene.worker()
    scene.add((f"short{number}" for number in range(10)), steps=2, step_ms=1500)
    scene.add((f"long{number}" for number in range(10)), steps=2, step_ms=12000)
    scene.wait_for_working(20)
    leaving.terminate()
    code, took = timed(leaving, 15)
    assert (code, took <= 10) == (0, True), f"left with {code} after {took:.1f} s"
    assert scene.states() == {"done": 10, "queued": 10}
    scene.worker()
    scene.wait_for({"done": 20}, 45)


@pytest.mark.timeout(120)
def test_a_stop_ends_running_work_at_its_next_step_within_two_seconds(scene: Scene) -> None:
    scene.worker()
    scene.add((f"d{number}" for number in range(50)), steps=100, step_ms=500)
    scene.wait_for_working(50)
    set_switch(scene.house.db, scene.house.clock, mode="stop", why="something is odd", actor="test")
    time.sleep(2)
    begun = scene.begun()
    scene.wait_for({"waiting": 50}, 10)
    assert scene.begun() == begun, "a step began more than two seconds after the stop"


@pytest.mark.timeout(120)
def test_a_new_version_of_the_code_takes_up_the_tasks_of_the_old_one(scene: Scene) -> None:
    folder = scene.house.home / "playbooks"
    folder.mkdir()
    code = (
        "import asyncio\n"
        "from nightdesk import playbook\n"
        '@playbook("job", input={"name": "string"}, key="{name}", when="now", risk="internal")\n'
        "async def job(order, desk):\n"
        "    await desk.step('first', asyncio.sleep, 0.1)\n"
        "    await desk.step('second', asyncio.sleep, 30 if OLD else 0)\n"
        "    return 'OLD' if OLD else 'NEW'\n"
    )
    (folder / "job.py").write_text("OLD = True\n" + code, encoding="utf-8")
    old = scene.worker()
    task = scene.processes.run(scene.house.home, "add", "job", '{"name": "a"}', "--json")
    assert task.returncode == 0, task.stderr
    scene.wait_for_working(1)
    time.sleep(1)
    old.kill()
    (folder / "job.py").write_text("OLD = False\n" + code, encoding="utf-8")
    scene.worker()
    scene.wait_for({"done": 1}, 30)
    shown = scene.processes.run(scene.house.home, "tasks", "list", "--json")
    assert '"NEW"' in shown.stdout
