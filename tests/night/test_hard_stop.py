"""The hard stop: a thousand tasks in every state, and half a minute later nothing of the night is under way."""

import asyncio
import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.clock import SetClock
from nightdesk.store import batches, calls, events, runs, tasks
from nightdesk.store.tables import FINAL
from nightdesk.work import Desk
from nightdesk.work.insight import count_states
from nightdesk.work.queue import dispatch_next
from tests.night.keeper import AskingKeeper, Keeper, asks, utc
from tests.support.processes import wait_until

_NIGHT = "2026-11-30"
_STOP = utc("2026-12-01T05:00:00")
_SOON, _LATER = _STOP + timedelta(seconds=20), _STOP + timedelta(hours=5)
_EACH = 40
_RUNNING = 40
_IN_THREADS = 2

# How a task may stand at the hard stop. With `leg` its next leg lies in the queue; after that, what becomes of it.
_STANDS: dict[str, tuple[dict[str, Any], str]] = {
    "planned": ({"state": "planned"}, "queued"),
    "planned, dispatched": ({"state": "planned", "leg": 0.0}, "queued"),
    "handed back": ({"state": "queued", "dispatch": 1, "leg": 0.0}, "waiting:time"),
    "left in the queue": ({"state": "queued", "until": _STOP - timedelta(days=1), "night": "2026-11-29"}, "queued"),
    "worker is dead": ({"state": "working", "dispatch": 1, "slot": "w9.1"}, "waiting:time"),
    "batch": ({"state": "waiting", "waiting_for": "batch"}, "waiting:batch"),
    "batch has come": ({"state": "waiting", "waiting_for": "batch", "leg": 0.0}, "waiting:time"),
    "retry": ({"state": "waiting", "waiting_for": "retry", "wake_at": _SOON, "leg": 20.0}, "waiting:time"),
    "budget of the day": ({"state": "waiting", "waiting_for": "budget", "wake_at": _LATER}, "waiting:budget"),
    "budget of the night": (
        {"state": "waiting", "waiting_for": "budget", "wake_at": _STOP, "leg": 0.1},
        "waiting:time",
    ),
    "budget of its own": ({"state": "waiting", "waiting_for": "budget"}, "waiting:budget"),
    "person": ({"state": "waiting", "waiting_for": "person"}, "waiting:person"),
    "person has answered": ({"state": "waiting", "waiting_for": "person", "leg": 0.0}, "waiting:time"),
    "switch": ({"state": "waiting", "waiting_for": "switch"}, "waiting:switch"),
    "time": ({"state": "waiting", "waiting_for": "time"}, "waiting:time"),
    "sleeps": ({"state": "waiting", "waiting_for": "time", "wake_at": _LATER}, "waiting:time"),
    "turn": ({"state": "waiting", "waiting_for": "turn"}, "waiting:turn"),
    "breaker": ({"state": "waiting", "waiting_for": "breaker", "wake_at": _SOON, "leg": 20.0}, "waiting:time"),
    "limit": ({"state": "waiting", "waiting_for": "limit", "wake_at": _SOON, "leg": 20.0}, "waiting:time"),
    "tasks": ({"state": "waiting", "waiting_for": "tasks"}, "waiting:tasks"),
    "review": ({"state": "review", "dispatch": 1, "result": {"text": "a draft"}}, "review"),
    "approved": ({"state": "approved", "dispatch": 1}, "approved"),
    "releasing": ({"state": "releasing", "dispatch": 1}, "releasing"),
    **{state: ({"state": state, "ended_at": _STOP, "error": {"class": "bug"}}, state) for state in FINAL},
}


def test_a_thousand_tasks_in_every_state(keeper: Keeper) -> None:
    running = _Running()
    keeper.have(running.body)
    _open_the_night(keeper, _RUNNING)
    stood = _stand(keeper)
    with running.begun(keeper):
        keeper.clock.move_to(_STOP - timedelta(seconds=1))
        keeper.look()
        assert (keeper.nights(), _counted(keeper)["working"]) == ({_NIGHT: "open"}, _RUNNING + _EACH)
        keeper.clock.move_to(_STOP)
        keeper.look()
        assert keeper.nights() == {_NIGHT: "closing"}
        keeper.clock.advance(8)
        wait_until(lambda: _counted(keeper)["working"] == _EACH, 30, "the worker has parked its legs")
    keeper.run_together(keeper.due())  # whatever lies in the queue
    keeper.clock.advance(12)
    keeper.run_together(keeper.due())
    keeper.look()
    keeper.clock.advance(9.9)
    assert keeper.nights() == {_NIGHT: "closed"}
    _assert_nothing_is_lost(keeper, stood)
    assert running.count == _RUNNING
    figures = keeper.night(_NIGHT)["figures"]
    told = sum(figures["waiting"].values()) + sum(figures[name] for name in (*FINAL, "review") if name != "rejected")
    assert (
        told == _EACH * (len(_STANDS) - 4) + _RUNNING
    )  # rejected, approved, releasing and the night before are not told
    assert figures["waiting"]["not started"] == 2 * _EACH


def test_what_is_under_way_may_end_but_nothing_more_begins(quick_keeper: Keeper) -> None:
    """Two steps and a last word; the hard stop comes in the middle of the first step."""
    keeper, freed = quick_keeper, threading.Event()

    async def body(_order: Any, desk: Desk) -> Json:
        await desk.step("first", freed.wait, 60)
        await desk.step("second", _nothing)
        return "done"

    keeper.have(body)
    _open_the_night(keeper, 1)
    [(task_id, leg)] = keeper.due()
    thread = threading.Thread(target=keeper.run, args=(task_id, leg))
    thread.start()
    wait_until(lambda: keeper.task(task_id)["steps"], 30, "the first step has begun")
    keeper.look("2026-12-01T05:00:03")
    assert keeper.state(task_id) == "working"
    freed.set()
    thread.join()
    assert [(step["step"], step["status"]) for step in keeper.task(task_id)["steps"]] == [("first", "done")]
    assert (keeper.state(task_id), keeper.why(task_id)) == ("waiting:time", "the night is over; it waits for the next")


async def _nothing() -> None:
    return None


def test_a_worker_that_hangs_finds_its_writes_refused(keeper: Keeper) -> None:
    """Its clock stands still, as for a process that is frozen, so that it does not see that the night is over."""
    frozen, freed = Keeper(keeper.house, keeper.clock), threading.Event()

    async def body(_order: Any, desk: Desk) -> Json:
        return await desk.step("wait", freed.wait, 60)

    keeper.have(body)
    _open_the_night(keeper, 1)
    [(task_id, leg)] = keeper.due()
    frozen.house = dataclasses.replace(keeper.house, clock=SetClock(keeper.clock.now()))
    thread = threading.Thread(target=frozen.run_together, args=([(task_id, leg)],))
    thread.start()
    try:
        wait_until(lambda: keeper.task(task_id)["steps"], 30, "the step has begun")
        keeper.look("2026-12-01T05:00:19")
        assert (keeper.state(task_id), keeper.nights()) == ("working", {_NIGHT: "closing"})
        keeper.look("2026-12-01T05:00:20")
        assert (keeper.state(task_id), keeper.nights()) == ("waiting:time", {_NIGHT: "closed"})
    finally:
        freed.set()
        thread.join()
    assert keeper.state(task_id) == "waiting:time"
    assert keeper.why(task_id) == "the night is over, and its worker did not let go of it; it waits for the next"
    assert [step["status"] for step in keeper.task(task_id)["steps"]] == ["running"]
    keeper.look("2026-12-01T17:00:00")
    keeper.look("2026-12-02T01:00:00")
    keeper.run_all()
    assert keeper.state(task_id) == "done"


def test_what_is_out_in_a_batch_is_called_back_and_what_comes_late_is_kept(asking_keeper: AskingKeeper) -> None:
    keeper = asking_keeper
    keeper.set(waves={"canary": False})
    keeper.simulator.behaviour.change({"batch_seconds": 18_000.0, "cancel_seconds": 15 * 3600.0})
    keeper.have(asks, output={"text": "string"}, risk="customer", lane="batch")
    ids = keeper.add("a", "b", "c", "d")
    keeper.look("2026-11-30T17:00:00")
    keeper.pass_time(8 * 3600)
    keeper.work_until("2026-12-01T04:30:00", step_seconds=1800)
    assert keeper.states(ids) == ["waiting:batch"] * 4
    keeper.work_until("2026-12-01T05:00:10")
    assert [batch["status"] for batch in _rows(keeper, batches)] == ["cancelling"]
    assert keeper.nights() == {_NIGHT: "closed"}
    assert keeper.states(ids) == ["waiting:batch"] * 4
    assert keeper.night(_NIGHT)["figures"]["waiting"] == {"batch": 4}
    keeper.look("2026-12-01T17:00:00")
    assert sorted(keeper.plan("2026-12-01")) == sorted(ids)
    keeper.pass_time(2.5 * 3600)
    keeper.work_until("2026-12-01T20:00:00", step_seconds=600)
    # Those that were run before the batch was cancelled are stored and paid; but no leg begins before the next start.
    answered = [call for call in _rows(keeper, calls) if call["status"] == "done"]
    assert 0 < len(answered) < 4
    assert all(call["cost_usd"] > 0 for call in answered)
    assert keeper.states(ids) == ["waiting:time"] * 4
    keeper.pass_time(5 * 3600)
    keeper.simulator.behaviour.change({"batch_seconds": 1200.0})
    keeper.work_until("2026-12-02T02:00:00")
    assert keeper.states(ids) == ["review"] * 4
    assert (keeper.meter()["executions"], keeper.meter()["repeated"]) == (4, 0)


def _rows(keeper: Keeper, table: sa.Table) -> list[Any]:
    with keeper.house.db.read() as conn:
        return list(conn.execute(sa.select(table)).mappings())


def _open_the_night(keeper: Keeper, count: int) -> None:
    keeper.add(*(f"running-{number}" for number in range(count)))
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T01:00:00")
    keeper.clock.move_to(_STOP - timedelta(seconds=10))


def _stand(keeper: Keeper) -> dict[str, str]:
    """So many tasks of each kind; the answer is which is of what kind."""
    now = keeper.clock.now()
    common = {"playbook": "job", "tenant": "main", "playbook_version": "1", "priority": 2, "created_at": now}
    stood = {f"{kind}-{number}": kind for kind in _STANDS for number in range(_EACH)}
    with keeper.house.db.write() as conn:
        for kind, (columns, _) in _STANDS.items():
            stated = {name: value for name, value in columns.items() if name != "leg"}
            names = [name for name, its in stood.items() if its == kind]
            night = {"night": _NIGHT, "until": _STOP}
            rows: list[dict[str, Any]] = [
                common | night | stated | {"id": name, "key": name, "updated_at": now, "input": {"name": name}}
                for name in names
            ]
            conn.execute(tasks.insert(), rows)
            if "leg" in columns:
                for row in rows:
                    _queue(keeper, conn, row["id"], columns["leg"])
    return stood


def _queue(keeper: Keeper, conn: sa.Connection, task_id: str, delay: float) -> None:
    task = conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one()
    conn.execute(tasks.update().where(tasks.c.id == task_id), dispatch_next(keeper.house, conn, task, delay))


class _Running:
    """Legs that never end by themselves: some wait in a step, some between two, some in a thread."""

    def __init__(self) -> None:
        self.count = 0
        self._over = threading.Event()

    async def body(self, order: Any, desk: Desk) -> Json:
        self.count += 1
        number = int(order.name.split("-")[1])
        if number < _IN_THREADS:
            await desk.step("block", self._over.wait, 60)  # a thread cannot be stopped, but nobody waits for it
        elif number % 2:
            await desk.step("wait", self._wait)
        else:
            await self._wait()
        return None

    async def _wait(self) -> None:
        await asyncio.sleep(3600)

    @contextmanager
    def begun(self, keeper: Keeper) -> Iterator[None]:
        planned = set(keeper.plan(_NIGHT))
        legs = [leg for leg in keeper.due() if leg[0] in planned]
        thread = threading.Thread(target=keeper.run_together, args=(legs,))
        thread.start()
        try:
            wait_until(lambda: self.count == len(legs) == _RUNNING, 30, "the legs run")
            yield
        finally:
            self._over.set()
            keeper.clock.move_to(_STOP + timedelta(seconds=8))  # or the legs would never end
            thread.join()


def _counted(keeper: Keeper) -> Counter[str]:
    return Counter(count_states(keeper.house))


def _assert_nothing_is_lost(keeper: Keeper, stood: Mapping[str, str]) -> None:
    with keeper.house.db.read() as conn:
        rows = {row["id"]: row for row in conn.execute(sa.select(tasks)).mappings()}
        told = set(conn.scalars(sa.select(events.c.task_id).where(events.c.at >= _STOP, events.c.kind == "state")))
        late = conn.execute(sa.select(runs.c.task_id).where(runs.c.started_at > _STOP)).all()
    assert late == []
    assert len(rows) == len(stood) + _RUNNING == 40 + 28 * 40
    for task_id, row in rows.items():
        kind = stood.get(task_id)
        before, after = _STANDS[kind] if kind else ({"state": "working"}, "waiting:time")
        is_now = f"waiting:{row['waiting_for']}" if row["state"] == "waiting" else row["state"]
        assert is_now == after, (kind, dict(row))
        assert row["rank"] is None or row["state"] not in ("queued", "planned"), dict(row)
        was = f"waiting:{before['waiting_for']}" if before["state"] == "waiting" else before["state"]
        assert (task_id in told) == (was != after or "leg" in before), (kind, task_id)
