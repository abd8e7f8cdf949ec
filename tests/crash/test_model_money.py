"""Money with many real workers: what is paid and what is reserved are never more than a cap, whoever asks at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightdesk.engine.slots import live_executors
from nightdesk.store import budgets, events, open_database
from nightdesk.work.insight import count_states
from tests.crash.asking import AskingScene, asking_scene
from tests.support.processes import wait_until

_TASKS, _WORKERS = 200, 4
_CAP = 1_000_000
# An answer of 3,000 tokens costs a cent and a half. It may have 3,200, for which this is reserved, and for the input.
_LENGTH = 3000
_RESERVED = 16_000


@dataclass
class _Samples:
    """What was held at each look: reserved, spent, and the cap as it was raised."""

    taken: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def most(self) -> int:
        return max(reserved + spent for reserved, spent, _ in self.taken)

    @property
    def over(self) -> list[tuple[int, int, int]]:
        return [(reserved, spent, cap) for reserved, spent, cap in self.taken if reserved + spent > cap]


@contextmanager
def _watched(url: str) -> Iterator[_Samples]:
    """Look at the day's accounts all the time, over a connection of one's own."""
    b, samples, over = budgets.c, _Samples(), threading.Event()
    query = sa.select(b.reserved_micros, b.spent_micros, _CAP + b.raised_micros).where(b.scope == "day")
    db = open_database(url)

    def look() -> None:
        while not over.wait(0.002):
            with db.read() as conn:
                samples.taken += [(row[0], row[1], row[2]) for row in conn.execute(query)]

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()
        db.close()


@pytest.mark.timeout(300)
def test_two_hundred_requests_of_four_workers_stay_under_a_dollar_until_more_is_allowed(
    tmp_path: Path, postgres_url: str
) -> None:
    """Then one of the workers is killed, and what it had asked counts as spent, besides what is paid for it again."""
    stated = '[budget]\nday = "1.00"\n'
    with (
        asking_scene(tmp_path / "house", postgres_url, stated=stated, latency=0.3) as scene,
        _watched(postgres_url) as samples,
    ):
        workers = [scene.worker() for _ in range(_WORKERS)]
        wait_until(lambda: len(live_executors(scene.house.db)) == _WORKERS, 60, "all workers have started")
        scene.add("anthropic-live", map(str, range(_TASKS)), length=_LENGTH)
        wait_until(lambda: _is_used_up(scene), 120, "nothing more can be paid")
        done = count_states(scene.house)["done"]
        assert scene.waiting() == {"done": done, "waiting:budget": _TASKS - done}
        assert (scene.meter()["executions"], _asked(scene)) == (done, 1)
        assert _CAP - 2 * _RESERVED < samples.most <= _CAP
        raised = scene.processes.run(scene.house.home, "budget", "raise", "5", "--why", "the rest is worth it")
        assert raised.returncode == 0, raised.stderr
        wait_until(lambda: count_states(scene.house).get("working", 0) >= _WORKERS, 60, "they go on")
        workers[0].kill()
        scene.wait_for({"done": _TASKS})
        assert (samples.over, _asked(scene), len(_who_worked(scene))) == ([], 1, _WORKERS)
        meter, lost = scene.meter(), scene.causes("call")
        assert (meter["executions"] - meter["repeated"], meter["repeated"] <= len(lost)) == (_TASKS, True)
        scene.assert_paid()


def _is_used_up(scene: AskingScene) -> bool:
    """All that is left is less than any of the waiting requests would reserve."""
    found = scene.read(sa.select(budgets.c.reserved_micros, budgets.c.spent_micros).where(budgets.c.scope == "day"))
    states = scene.waiting().keys()
    return states == {"done", "waiting:budget"} and found[0][0] == 0 and found[0][1] + _RESERVED > _CAP


def _asked(scene: AskingScene) -> int:
    """How often a person was asked for more money."""
    return len(scene.read(sa.select(events.c.id).where(events.c.kind == "budget", events.c.state == "asked")))


def _who_worked(scene: AskingScene) -> set[str]:
    return {row.actor for row in scene.read(sa.select(events.c.actor).where(events.c.state == "working"))}
