"""Bare DBOS doing what a no-op drill does: a queued workflow of three steps. As a program, its worker."""

import json
import os
import subprocess
import sys
import time

from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions

from nightdesk.settings import WorkerSettings
from nightdesk.store import open_database

_APP = "bare"
_WORKFLOW = "three_steps"
_OPTIONS = EnqueueOptions(workflow_name=_WORKFLOW, queue_name=_APP, app_version="1")
_PATIENCE_SECONDS = 300


def client(url: str) -> DBOSClient:
    return DBOSClient(system_database_url=url, serializer=DBOSPortableJSONSerializer(), application_name=_APP)


def enqueue(to: DBOSClient, name: str) -> None:
    to.enqueue(_OPTIONS, {"name": name, "steps": 3})


def drain_seconds(url: str, count: int) -> float:
    """From the first start to the last end of so many workflows, in a worker process set up as Nightdesk's."""
    _fill(url, count)
    limits = WorkerSettings()
    command = [sys.executable, "-m", "bench.bare", url, str(count), str(limits.concurrency), str(limits.poll_seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_PATIENCE_SECONDS, check=True)
    return float(json.loads(done.stdout))


def _fill(url: str, count: int) -> None:
    database, to = open_database(url), client(url)
    with database.write() as conn:
        for number in range(count):
            to.enqueue_in_transaction(conn, _OPTIONS, {"name": f"n{number}", "steps": 3})
    to.destroy()
    database.close()


def work(url: str, count: int, concurrency: int, poll_seconds: float) -> float:
    """Run them all in this process; the answer is the seconds from the first start to the last end."""
    moments: list[float] = []

    @DBOS.step()
    async def step(order: dict[str, str], number: int) -> dict[str, int]:
        return {"step": number, "attempt": 1}

    @DBOS.workflow(name=_WORKFLOW)
    async def three_steps(order: dict[str, str]) -> dict[str, int]:
        moments.append(time.monotonic())
        for number in range(1, 4):
            await step(order, number)
        moments.append(time.monotonic())
        return {"steps": 3}

    config: DBOSConfig = {
        "name": _APP,
        "system_database_url": url,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "WARNING",
        "application_version": "1",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(_APP, worker_concurrency=concurrency, polling_interval_sec=poll_seconds)
    while len(moments) < 2 * count:
        time.sleep(0.05)
    return max(moments) - min(moments)


if __name__ == "__main__":
    print(json.dumps(work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))), flush=True)
    os._exit(0)  # DBOS's own end would wait for its polls
