"""Intake under load while a worker is busy: a steady rate, and a burst."""

from bench.figures import Figure, at_least, at_most
from bench.place import Place, Scene, Sizes, Tell
from nightdesk.store import tasks
from tests.support.load import Load, start_web

_CONNECTIONS = 16


def steady(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    rate, p95, p99 = (50, 100, 1000) if place.is_sqlite else (200, 60, 150)
    with place.scene() as scene:
        web = start_web(scene.house, scene.processes)
        scene.add(sizes.drain * 5, prefix="busy")
        scene.worker()
        scene.wait_for(1, tasks.c.state == "done")
        tell(f"{rate} submissions a second for {sizes.intake_seconds} s")
        names = [f"steady-{number}" for number in range(rate * sizes.intake_seconds)]
        load = web.post(names, connections=_CONNECTIONS, per_second=rate)
        lost = _lost(scene, load, "steady-")
    return [
        Figure("steady intake beside a busy worker, per second", load.per_second, at_least(rate * 0.98)),
        Figure("· of these refused or lost", lost, at_most(0)),
        Figure("· ms to the answer, p95", load.percentile(95) * 1000, at_most(p95)),
        Figure("· ms to the answer, p99", load.percentile(99) * 1000, at_most(p99)),
    ]


def burst(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    with place.scene() as scene:
        web = start_web(scene.house, scene.processes)
        tell(f"a burst of {sizes.burst:,} submissions")
        load = web.post([f"burst-{number}" for number in range(sizes.burst)], connections=_CONNECTIONS)
        return [
            Figure(f"seconds to accept a burst of {sizes.burst:,}", load.seconds, at_most(60)),
            Figure("· of the burst refused or lost", _lost(scene, load, "burst-"), at_most(0)),
            Figure("· MB of memory of the web process after it", web.resident_mb(), at_most(300)),
        ]


def _lost(scene: Scene, load: Load, prefix: str) -> int:
    """Submissions that were not accepted, and tasks that are not as many as were accepted."""
    accepted = load.statuses.get(202, 0)
    return len(load.answers) - accepted + abs(accepted - scene.count(tasks.c.key.startswith(prefix)))
