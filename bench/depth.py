"""Whether a task costs more when many are queued: work, claim and list at a small and at a great depth."""

import statistics
import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bench.figures import Figure, at_most
from bench.fill import fill
from bench.place import Place, Scene, Sizes, Tell
from nightdesk.engine.dispatch import COMPATIBILITY, QUEUE
from nightdesk.store import events, tasks
from nightdesk.work.insight import list_tasks

_CLAIMS = 10
_PAGES = 10


def queued(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    ratios, shallow, deep = [], [], []
    with place.scene() as full:
        tell(f"filling a queue of {sizes.deep:,}")
        fill(full, sizes.deep)
        pages = _page_seconds(full)
        for number in range(sizes.rounds):
            with place.scene() as small:
                fill(small, sizes.shallow)
                tell(f"{sizes.shallow:,} queued, round {number + 1} of {sizes.rounds}")
                shallow.append(_seconds_per_task(small, sizes.sample))
                tell(f"{sizes.deep:,} queued, round {number + 1} of {sizes.rounds}")
                deep.append(_seconds_per_task(full, sizes.sample))
            ratios.append(deep[-1] / shallow[-1])
        tell(f"claims from {sizes.deep:,}")
        claims = _claim_seconds(full)
    return [
        Figure(f"ms per task, {sizes.shallow:,} queued", statistics.median(shallow) * 1000),
        Figure(f"ms per task, {sizes.deep:,} queued", statistics.median(deep) * 1000),
        Figure("· ratio of the two depths", statistics.median(ratios), at_most(1.2)),
        Figure(f"ms to claim 50 of {sizes.deep:,}, median", statistics.median(claims) * 1000, at_most(10)),
        Figure(f"ms for a page of {sizes.deep:,}, p95", _p95(pages) * 1000, at_most(300)),
    ]


def _seconds_per_task(scene: Scene, count: int) -> float:
    """Over the first so many tasks that a fresh worker does: their number is the same at every depth."""
    since = scene.house.clock.now()
    ended = (tasks.c.state == "done") & (tasks.c.ended_at > since)
    running = scene.worker()
    scene.wait_for(count, ended)
    running.terminate()
    running.wait(30)
    begun = sa.select(sa.func.min(events.c.at)).where(events.c.state == "working", events.c.at > since)
    last = sa.select(tasks.c.ended_at).where(ended).order_by(tasks.c.ended_at).offset(count - 1).limit(1)
    with scene.house.db.read() as conn:
        first: datetime = conn.execute(begun).scalar_one()
        return float((conn.execute(last).scalar_one() - first).total_seconds()) / count


def _claim_seconds(scene: Scene) -> list[float]:
    """The queue's own claim, as a worker makes it every tenth of a second."""
    client = scene.house.dispatcher.client
    queue = client.retrieve_queue(QUEUE)
    assert queue is not None
    took = []
    for _ in range(_CLAIMS):
        began = time.monotonic()
        client._sys_db.start_queued_workflows(queue, "bench", COMPATIBILITY, None)
        took.append(time.monotonic() - began)
    return took


def _page_seconds(scene: Scene) -> list[float]:
    """Pages as people ask for them: the newest, those of a state, a playbook, a tenant, and on through the cursor."""
    took = []
    filters: list[dict[str, Any]] = [
        {},
        {"state": "queued"},
        {"state": "done"},
        {"playbook": "drill"},
        {"tenant": "main"},
    ]
    for stated in filters:
        cursor = None
        for _ in range(_PAGES):
            began = time.monotonic()
            cursor = list_tasks(scene.house, cursor=cursor, **stated).next_cursor
            took.append(time.monotonic() - began)
    return took


def _p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]
