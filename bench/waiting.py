"""What a task costs while it waits for a person, and how soon it goes on when the answer comes."""

import statistics
import time

import psutil
import sqlalchemy as sa

from bench.figures import Figure, at_most
from bench.place import Place, Scene, Sizes, Tell, patiently
from nightdesk.store import runs, tasks
from nightdesk.work.tasks import answer

_PLAYBOOK = """
from nightdesk import playbook

@playbook("asking", input={"name": "string"}, key="{name}", when="now", risk="internal")
async def asking(order, desk):
    return await desk.ask("Go on?", ["yes", "no"])
"""
_CLICKS = 40


def parked(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """The memory of one worker before and after so many tasks of it are parked; both times it has parked some."""
    with place.scene(_PLAYBOOK) as scene:
        worker = psutil.Process(scene.worker().pid)
        tell("parking a few tasks first")
        before = _memory_with(scene, worker, sizes.parked // 10, sizes.settle_seconds)
        tell(f"parking {sizes.parked:,} tasks")
        after = _memory_with(scene, worker, sizes.parked, sizes.settle_seconds)
        idle = worker.cpu_percent(interval=sizes.idle_seconds)
        tell("answering questions")
        resumed = _resume_seconds(scene, min(_CLICKS, sizes.parked // 2))
    return [
        Figure(f"bytes of memory per parked task, of {sizes.parked:,}", (after - before) / sizes.parked, at_most(1024)),
        Figure("% of a processor that an idle worker takes with them", idle, at_most(10 if place.is_sqlite else 5)),
        Figure("seconds from a person's answer to the end, p95", _p95(resumed), at_most(2)),
    ]


def _memory_with(scene: Scene, worker: psutil.Process, count: int, settle_seconds: float) -> int:
    """Resident bytes once so many more tasks are parked, and all is still."""
    target = scene.count(tasks.c.waiting_for == "person") + count
    scene.add(count, "asking", f"{target}-")
    scene.wait_for(target, tasks.c.waiting_for == "person")
    time.sleep(settle_seconds)
    return int(worker.memory_info().rss)


def _resume_seconds(scene: Scene, count: int) -> list[float]:
    waiting = sa.select(tasks.c.id).where(tasks.c.waiting_for == "person").limit(count)
    with scene.house.db.read() as conn:
        ids = list(conn.execute(waiting).scalars())
    for task_id in ids:
        answer(scene.house, task_id, "yes", actor="bench")
        time.sleep(0.1)
    patiently(lambda: scene.count(tasks.c.state == "done") == count, 60, "the answered tasks to end")
    both = sa.select(runs.c.ended_at, tasks.c.ended_at).join(tasks, tasks.c.id == runs.c.task_id)
    with scene.house.db.read() as conn:
        rows = conn.execute(both.where(tasks.c.id.in_(ids))).all()
    return [float((ended - clicked).total_seconds()) for clicked, ended in rows]


def _p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]
