"""Real workers killed with -9: at random moments, beside others, by their own work."""

import random
import time
from collections import Counter

import pytest
import sqlalchemy as sa

from nightdesk.store import runs, tasks
from tests.support.processes import wait_until
from tests.support.scene import Scene, Step


@pytest.mark.timeout(300)
def test_killed_25_times_every_task_ends_and_no_completed_step_is_run_again(scene: Scene) -> None:
    rng = random.Random(7)
    scene.add((f"d{number}" for number in range(200)), steps=5, step_ms=200)
    repeated = Counter[Step]()
    for _ in range(25):
        completed, before = scene.completed(), scene.begun()
        running = scene.worker()
        time.sleep(rng.uniform(1.2, 2.4))
        running.kill()
        repeated.update({step: count for step, count in (scene.begun() - before).items() if step in completed})
    scene.worker()
    scene.wait_for({"done": 200}, 60)
    assert not repeated
    with scene.house.db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(runs)).scalar_one() == 1000
        assert conn.execute(sa.select(sa.func.max(tasks.c.dispatch))).scalar_one() > 1, "no kill hit a leg"
    scene.wait_for_sealed_chain()


@pytest.mark.timeout(120)
def test_the_work_of_a_worker_killed_for_good_goes_on_elsewhere(scene: Scene) -> None:
    doomed = scene.worker()
    scene.add((f"d{number}" for number in range(20)), steps=4, step_ms=1500)
    scene.wait_for_working(20)
    scene.worker()
    wait_until(lambda: len(scene.completed()) >= 20, 20, "each drill has done a step")
    completed, before = scene.completed(), scene.begun()
    doomed.kill()
    killed_at = time.monotonic()
    wait_until(lambda: len(scene.begun() - before) >= 20, 30, "the survivor has begun the next steps")
    assert time.monotonic() - killed_at <= 30
    scene.wait_for({"done": 20}, 30)
    assert not [step for step in scene.begun() - before if step in completed]


@pytest.mark.timeout(180)
def test_a_poison_task_is_dead_after_five_starts_whoever_ran_it_and_others_are_unharmed(scene: Scene) -> None:
    (poison,) = scene.add(["poison"], fail="exit", fail_at=2, fail_times=99)
    scene.add((f"d{number}" for number in range(30)), steps=3, step_ms=100)
    crashes = 0
    workers = [scene.worker(), scene.worker()]
    deadline = time.monotonic() + 120
    while scene.states() != {"dead": 1, "done": 30} and time.monotonic() < deadline:
        for index, running in enumerate(workers):
            if not running.alive:
                crashes += 1
                workers[index] = scene.worker()
        time.sleep(0.2)
    assert scene.states() == {"dead": 1, "done": 30}
    with scene.house.db.read() as conn:
        row = conn.execute(sa.select(tasks.c.dispatch, tasks.c.error).where(tasks.c.id == poison)).one()
    assert (crashes, row.dispatch, row.error["class"]) == (5, 5, "poison")
    assert scene.begun()[("poison", "2")] == 5
