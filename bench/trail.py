"""How fast the audit chain is sealed and checked."""

import time
from datetime import UTC, datetime

from bench.figures import Figure, at_least
from bench.place import Place, Scene, Sizes, Tell
from nightdesk.store import events
from nightdesk.watch import audit

_AT_ONCE = 10_000


def chain(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    with place.scene() as scene:
        tell(f"writing {sizes.events:,} events")
        _write(scene, sizes.events)
        tell(f"sealing {sizes.events:,} events")
        began = time.monotonic()
        scene.seal()
        sealed = time.monotonic()
        tell(f"checking {sizes.events:,} events")
        verdict = audit.verify(scene.house.db, scene.house.home / scene.house.settings.audit.head_file)
        checked = time.monotonic()
    if not verdict.ok or verdict.rows != sizes.events:
        raise RuntimeError(f"The chain does not hold: {verdict}")
    return [
        Figure("audit rows sealed per second", sizes.events / (sealed - began)),
        Figure(
            "audit rows checked per second (a million in 30 s)", sizes.events / (checked - sealed), at_least(33_333)
        ),
    ]


def _write(scene: Scene, count: int) -> None:
    row = {"at": datetime.now(UTC), "kind": "state", "version": 1, "prior_state": "queued", "state": "working"}
    row |= {"cause": "started", "actor": "w1", "detail": None}
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(count, start + _AT_ONCE))
        with scene.house.db.write() as conn:
            conn.execute(events.insert(), [row | {"task_id": f"{number:032x}"} for number in numbers])
