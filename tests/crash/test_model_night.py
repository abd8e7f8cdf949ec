"""A night of a thousand tasks, whose worker is killed ten times at moments that nobody chose."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightdesk.model.simulator.meter import identity
from nightdesk.store import events, tasks
from tests.crash.asking import METERED_AS, PROVIDERS, AskingScene, asking_scene
from tests.support.processes import Running, wait_until

_KILLS = 10
# So many starts say nothing against a task when it is not the task that ends them.
_SETTINGS = {"worker_dispatches": "20", "waves_canary": "true"}
# Names by what they are asked in: of each provider so many tasks of one call in a batch, of two, and of one live call.
_NIGHT = {"single": ("batch", 1, 240), "double": ("batch", 2, 60), "live": ("live", 1, 34)}


def _submit(scene: AskingScene) -> dict[str, str]:
    """A thousand tasks; the answer is what each must have as its result, by its id."""
    wanted: dict[str, str] = {}
    for provider in PROVIDERS:
        for kind, (lane, turns, count) in _NIGHT.items():
            names = [f"{provider}-{kind}-{number}" for number in range(count)]
            ids = scene.add(f"{provider}-{lane}", names, turns=turns)
            answers = [f"the answer to {name}, turn {turns - 1}" for name in names]
            wanted |= dict(zip(ids, answers, strict=True))
    return wanted


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [7])
def test_a_thousand_tasks_and_ten_kills_nothing_is_lost_and_no_batch_is_paid_twice(
    seed: int, tmp_path: Path, sqlite_url: str
) -> None:
    moments = random.Random(seed)
    with asking_scene(tmp_path / "house", sqlite_url, batch_seconds=1.0, latency=0.05) as scene:
        wanted = _submit(scene)
        for _ in range(_KILLS):
            _killed_after(moments.uniform(0.2, 2.4), scene.worker(**_SETTINGS))
            assert scene.waiting() != {"done": len(wanted)}, "there was nothing left to kill"
        scene.worker(**_SETTINGS)
        scene.wait_for({"done": len(wanted)}, 200)
        assert scene.causes("state").count("taken over") > _KILLS, "the kills hit nothing"
        scene.assert_batches_known()
        assert dict(scene.read(sa.select(tasks.c.id, tasks.c.result))) == wanted
        _assert_paid_once(scene)
        scene.assert_paid()


def _killed_after(seconds: float, doomed: Running) -> None:
    wait_until(lambda: "has started" in doomed.output(), 60, "the worker has started")
    time.sleep(seconds)
    doomed.kill()


def _assert_paid_once(scene: AskingScene) -> None:
    """Every call ran, in batches once; what ran twice was live when its worker died, and is on record as lost."""
    asked = {identity(METERED_AS[row.provider], row.request | {"model": row.model}): row.id for row in scene.calls()}
    items = scene.meter()["items"]
    assert {item["id"] for item in items} == asked.keys()
    assert [item for item in items if item["lane"] == "batch" and item["count"] > 1] == []
    runs = Counter({item["id"]: 0 for item in items})
    for item in items:
        runs[item["id"]] += item["count"]
    lost = Counter(row.detail["call"] for row in scene.read(sa.select(events.c.detail).where(events.c.kind == "call")))
    assert [asked[name] for name, count in runs.items() if count > 1 + lost[asked[name]]] == []
