"""Bare DBOS doing what a no-op drill does: a queued workflow of three steps. Prints seconds as JSON."""

import json
import sys
import time

from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer


@DBOS.step()
async def step(number: int) -> dict[str, int]:
    return {"step": number}


@DBOS.workflow()
async def three_steps(name: str) -> dict[str, int]:
    for number in range(3):
        await step(number)
    return {"steps": 3}


def main(url: str, count: int, concurrency: int, poll_seconds: float) -> None:
    serializer = DBOSPortableJSONSerializer()
    config: DBOSConfig = {
        "name": "bare",
        "system_database_url": url,
        "serializer": serializer,
        "log_level": "ERROR",
        "application_version": "1",
    }
    DBOS.migrate(url)
    client = DBOSClient(system_database_url=url, serializer=serializer, application_name="bare")
    began = time.monotonic()
    for number in range(count):
        client.enqueue(
            {"workflow_name": three_steps.__qualname__, "queue_name": "bare", "app_version": "1"}, f"name-{number}"
        )
    queued = time.monotonic()
    DBOS(config=config)
    DBOS.launch()
    started = time.monotonic()
    DBOS.register_queue("bare", worker_concurrency=concurrency, polling_interval_sec=poll_seconds)
    while client.list_workflows(status=["ENQUEUED", "PENDING"], limit=1, load_input=False):
        time.sleep(0.05)
    print(json.dumps({"submit": queued - began, "drain": time.monotonic() - started}))
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
