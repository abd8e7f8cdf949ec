"""How long the tasks of a worker that died wait until another works on them."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from bench.figures import Figure, at_most
from bench.place import Place, Scene, Sizes, Tell, patiently
from nightdesk.store import slots, tasks
from tests.support.processes import Running

_TASKS = 40
_GOAL = at_most(30)
_TOO_LONG_SECONDS = 90


def dead_worker(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    tell("killing a worker")
    killed = _seconds(place, sizes, lambda running: running.kill())
    figures = [Figure("seconds until the tasks of a killed worker go on", killed, _GOAL)]
    if not place.is_sqlite:  # SQLite's workers share a machine, where a dead process is seen to be gone
        tell("silencing a worker")
        silent = _seconds(place, sizes, lambda running: running.pause())
        figures.append(Figure("· of one that fell silent, so that only its lease tells", silent, _GOAL))
    return figures


def _seconds(place: Place, sizes: Sizes, strike: Callable[[Running], None]) -> float:
    """From the blow until all tasks that the worker was working on are in another's hands."""
    with place.scene() as scene:
        doomed = scene.worker(worker_lease_seconds=sizes.lease_seconds)
        scene.add(_TASKS, steps=1000, step_ms=500)
        scene.wait_for(_TASKS, tasks.c.state == "working")
        lost = tasks.c.slot.is_not(None) & tasks.c.slot.in_(_executors(scene))
        scene.worker(worker_lease_seconds=sizes.lease_seconds)
        patiently(lambda: len(_executors(scene)) == 2, 30, "a second worker")
        time.sleep(2)  # the second worker has made its first rounds
        strike(doomed)
        struck_at = time.monotonic()
        patiently(lambda: scene.count(lost) == 0, _TOO_LONG_SECONDS, "the tasks to go on elsewhere")
        return time.monotonic() - struck_at


def _executors(scene: Scene) -> list[str]:
    held = sa.select(slots.c.name, slots.c.epoch).where(slots.c.holder.is_not(None))
    with scene.house.db.read() as conn:
        return [f"{name}.{epoch}" for name, epoch in conn.execute(held)]
