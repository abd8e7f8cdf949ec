"""Intake under load: everything that was accepted is there, once, and nothing is refused for being one of many.

How long an answer takes is judged by `make bench`, which has the machine to itself; here the bounds are generous.
"""

import os
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from nightdesk.store import tasks
from tests.support.load import Load, start_web
from tests.support.processes import wait_until
from tests.support.scene import Scene

_SECONDS = int(os.environ.get("TEST_LOAD_SECONDS", "8"))
_CONNECTIONS = 16


def _stored(scene: Scene, prefix: str) -> list[str]:
    with scene.house.db.read() as conn:
        return list(conn.execute(sa.select(tasks.c.key).where(tasks.c.key.startswith(prefix))).scalars())


def _assert_each_is_accepted_once(scene: Scene, names: Sequence[str], load: Load) -> None:
    assert load.statuses == {202: len(names)}
    assert sorted(_stored(scene, names[0].partition("-")[0])) == sorted(names)


@pytest.mark.timeout(_SECONDS + 180)
def test_steady_intake_beside_a_busy_worker_loses_nothing(scene: Scene) -> None:
    rate = 50 if scene.house.db.is_sqlite else 200
    web = start_web(scene.house, scene.processes)
    scene.add((f"busy-{number}" for number in range(100 * _SECONDS)), steps=5)
    scene.worker()
    wait_until(lambda: scene.states().get("done"), 30, "the worker is at work")
    names = [f"steady-{number}" for number in range(rate * _SECONDS)]
    load = web.post(names, connections=_CONNECTIONS, per_second=rate)
    states = scene.states()
    _assert_each_is_accepted_once(scene, names, load)
    assert states["done"] > 0
    assert states.get("queued", 0) > 0, "the worker had nothing left to do"
    assert load.percentile(95) < 20
    assert load.percentile(50) < 10


@pytest.mark.timeout(240)
def test_a_burst_is_accepted_and_each_task_is_done_once(scene: Scene) -> None:
    web = start_web(scene.house, scene.processes)
    names = [f"burst-{number}" for number in range(2_000)]
    load = web.post(names, connections=_CONNECTIONS)
    _assert_each_is_accepted_once(scene, names, load)
    assert web.resident_mb() < 300
    assert load.seconds < 120
