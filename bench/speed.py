"""How fast tasks are done and taken, next to bare DBOS doing the same."""

import statistics
import time
from collections.abc import Callable

import sqlalchemy as sa

from bench import bare
from bench.figures import Figure, at_least
from bench.place import Place, Scene, Sizes, Tell
from nightdesk.intake import Submission, submit
from nightdesk.store import events, tasks
from tests.support.load import Web, start_web

_GOAL = at_least(0.7)
_CONNECTIONS = 8


def work(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """No-op tasks of three steps, by one worker process each."""
    ours, others = [], []
    for number in range(sizes.rounds):
        tell(f"no-op tasks, round {number + 1} of {sizes.rounds}: bare DBOS")
        others.append(sizes.drain / bare.drain_seconds(place.database(), sizes.drain))
        tell(f"no-op tasks, round {number + 1} of {sizes.rounds}: Nightdesk")
        ours.append(sizes.drain / _drain_seconds(place, sizes.drain))
    return [
        Figure("no-op tasks with three steps, per second", statistics.median(ours)),
        Figure("· bare DBOS doing the same work", statistics.median(others)),
        Figure("· ratio to bare DBOS at work", _ratio(ours, others), _GOAL),
    ]


def intake(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """Submissions one after the other by a Python call, and over HTTP from several connections."""
    calls, others, posts = [], [], []
    with place.scene() as scene:
        other = bare.client(place.database())
        web = start_web(scene.house, scene.processes)
        for number in range(sizes.rounds):
            tell(f"submissions, round {number + 1} of {sizes.rounds}")
            names = [f"{number}-{count}" for count in range(sizes.submissions)]
            others.append(_per_second(lambda name: bare.enqueue(other, name), names))
            calls.append(_per_second(lambda name: _submit(scene, f"call-{name}"), names))
            posts.append(_posted(web, names))
        other.destroy()
    return [
        Figure("submissions per second, submit() in Python", statistics.median(calls)),
        Figure("· bare DBOS enqueue", statistics.median(others)),
        Figure("· ratio to bare DBOS enqueue", _ratio(calls, others)),
        Figure(f"· POST /v1/tasks, {_CONNECTIONS} connections", statistics.median(posts)),
    ]


def _drain_seconds(place: Place, count: int) -> float:
    with place.scene() as scene:
        scene.add(count)
        scene.worker()
        scene.wait_for(count, tasks.c.state == "done")
        begun = sa.select(sa.func.min(events.c.at)).where(events.c.state == "working")
        ended = sa.select(sa.func.max(tasks.c.ended_at))
        with scene.house.db.read() as conn:
            took = conn.execute(ended).scalar_one() - conn.execute(begun).scalar_one()
    return float(took.total_seconds())


def _submit(scene: Scene, name: str) -> None:
    submit(scene.house, Submission("drill", {"name": name}), actor="bench")


def _posted(web: Web, names: list[str]) -> float:
    load = web.post(names, connections=_CONNECTIONS)
    if load.statuses != {202: len(names)}:
        raise RuntimeError(f"Not every submission was accepted: {load.statuses}")
    return load.per_second


def _per_second(call: Callable[[str], None], names: list[str]) -> float:
    began = time.monotonic()
    for name in names:
        call(name)
    return len(names) / (time.monotonic() - began)


def _ratio(ours: list[float], others: list[float]) -> float:
    return statistics.median(our / other for our, other in zip(ours, others, strict=True))
