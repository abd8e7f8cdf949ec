"""Delayed, scheduled and debounced dispatch, by real workers on the real clock."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from nightdesk.house import open_house
from nightdesk.intake import Submission, submit
from nightdesk.store import tasks
from tests.support.processes import wait_until
from tests.support.scene import Scene

CRON = """
from nightdesk import playbook

@playbook("tick", input={"note": "string"}, risk="internal",
          when={"cron": "* * * * * *", "zone": "Europe/Berlin", "input": {"note": "from cron"}})
async def tick(order, desk):
    return order.note
"""

DEBOUNCED = """
from nightdesk import playbook

@playbook("settle", input={"name": "string", "text": "string"}, key="{name}", risk="internal", when={"debounce": "2s"})
async def settle(order, desk):
    return order.text
"""


def have(scene: Scene, code: str) -> Scene:
    folder = scene.house.home / "playbooks"
    folder.mkdir()
    (folder / "mine.py").write_text(code, encoding="utf-8")
    return Scene(open_house(scene.house.home), scene.processes, scene.log)


@pytest.mark.timeout(90)
def test_a_cron_line_fires_once_for_each_of_its_moments_however_many_workers_there_are(scene: Scene) -> None:
    scene = have(scene, CRON)
    scene.worker()
    scene.worker()
    wait_until(lambda: scene.states().get("done", 0) >= 6, 40, "six moments were worked on")
    with scene.house.db.read() as conn:
        rows = conn.execute(sa.select(tasks.c.key, tasks.c.result)).all()
    moments = [datetime.fromisoformat(row.key) for row in rows]
    assert max(Counter(moments).values()) == 1
    assert all(moment.microsecond == 0 for moment in moments)
    assert {row.result for row in rows if row.result} == {"from cron"}
    scene.house.close()


@pytest.mark.timeout(60)
def test_delayed_work_starts_at_its_time_and_a_retry_after_its_delay(scene: Scene) -> None:
    opens = datetime.now(UTC) + timedelta(seconds=6)
    late = submit(scene.house, Submission("drill", {"name": "late"}, not_before=opens)).id
    submit(scene.house, Submission("drill", {"name": "again", "fail": "transient"}))
    scene.worker()
    scene.wait_for({"done": 2}, 40)
    with scene.house.db.read() as conn:
        ended = conn.execute(sa.select(tasks.c.ended_at).where(tasks.c.id == late)).scalar_one()
    assert timedelta(0) <= ended - opens < timedelta(seconds=5)


@pytest.mark.timeout(60)
def test_a_debounced_task_starts_once_it_was_left_alone(scene: Scene) -> None:
    scene = have(scene, DEBOUNCED)
    scene.worker()
    for number in range(8):
        submit(scene.house, Submission("settle", {"name": "a", "text": f"draft {number}"}))
        time.sleep(0.5)
    assert scene.states() == {"queued": 1}
    scene.wait_for({"done": 1}, 20)
    with scene.house.db.read() as conn:
        assert conn.execute(sa.select(tasks.c.result)).scalar_one() == "draft 7"
    scene.house.close()
