"""A wave that is about to leave: one task asks for real, and its rows are copied."""

import hashlib
from typing import Any

import sqlalchemy as sa

from bench.place import Scene
from nightdesk.store import budgets, calls, tasks

_AT_ONCE = 2_000


def fill_wave(scene: Scene, count: int) -> None:
    """So many tasks of which each waits for one call, which is wanted for the next wave."""
    worker = scene.worker(waves_settle_seconds=600)
    scene.add(1, "batch-call", prefix="ahead-of-it-")
    scene.wait_for(1, tasks.c.state == "done", seconds=60)
    scene.add(1, "batch-call")
    scene.wait_for(1, tasks.c.waiting_for == "batch", seconds=60)
    worker.terminate()
    worker.wait(30)
    _copy_rows(scene, count)


def _copy_rows(scene: Scene, count: int) -> None:
    with scene.house.db.write() as conn:
        task = dict(conn.execute(sa.select(tasks).where(tasks.c.waiting_for == "batch")).mappings().one())
        call = dict(conn.execute(sa.select(calls).where(calls.c.task_id == task["id"])).mappings().one())
        for start in range(1, count, _AT_ONCE):
            numbers = range(start, min(count, start + _AT_ONCE))
            conn.execute(tasks.insert(), [_own_task(task, number) for number in numbers])
            conn.execute(calls.insert(), [_own_call(call, number) for number in numbers])
        conn.execute(budgets.update().values(reserved_micros=budgets.c.reserved_micros * count))


def _own_task(task: dict[str, Any], number: int) -> dict[str, Any]:
    return task | {"id": _name("task", number)[:32], "key": f"copy-{number}"}


def _own_call(call: dict[str, Any], number: int) -> dict[str, Any]:
    said = [{"role": "user", "content": f"Write about number {number}."}]
    own = {"id": _name("call", number)[:40], "task_id": _name("task", number)[:32]}
    return call | own | {"body_hash": _name("body", number), "request": call["request"] | {"messages": said}}


def _name(kind: str, number: int) -> str:
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()
