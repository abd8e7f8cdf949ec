"""The queue, stepped by hand: take one leg, run it at the time that the clock says, look. Nothing sleeps."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.clock import SetClock
from nightdesk.engine.dispatch import LEG
from nightdesk.engine.slots import Slot, acquire
from nightdesk.guard.egress import Egress
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.intake import Receipt, Submission, emit_in, submit
from nightdesk.model.room import ModelRoom
from nightdesk.playbook import Playbook, Registry, playbook
from nightdesk.review import Gatekeeper, lay_on_desk
from nightdesk.store import tasks
from nightdesk.work import Desk, sweeper
from nightdesk.work.insight import find_task
from nightdesk.work.joining import wake_joined
from nightdesk.work.leg import Legs

Body = Callable[[Any, Desk], Awaitable[Any]]
START = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)


class Hand:
    """One worker without a queue thread: the test says when each leg runs."""

    def __init__(self, house: House, clock: SetClock) -> None:
        self.house = house
        self.clock = clock
        self.slot: Slot = acquire(house.db, 15)
        self.switchboard = Switchboard(house.db)
        self.room = ModelRoom(house)
        self.egress = Egress()
        self._client = house.dispatcher.client

    def have(self, body: Body | None = None, **stated: Any) -> None:
        """Open the house anew with a playbook called `job` that runs `body`; without a body, with none."""
        stated = {"input": {"name": "string"}, "key": "{name}", "when": "now", "risk": "internal"} | stated

        async def run(order: Any, desk: Desk) -> Any:
            assert body is not None
            return await body(order, desk)

        if body:
            self.use(playbook("job", **stated)(run))
        else:
            self._open([book for book in self.house.registry if book.name != "job"])

    def use(self, made: Playbook) -> None:
        """Open the house anew with this playbook in the place of one of the same name."""
        self._open([*(book for book in self.house.registry if book.name != made.name), made])

    def _open(self, playbooks: Sequence[Playbook]) -> None:
        self.house = dataclasses.replace(self.house, registry=Registry(playbooks))
        self.room = ModelRoom(self.house)

    def submit(self, playbook: str, input: Json, **fields: Any) -> Receipt:
        return submit(self.house, Submission(playbook, input, **fields))

    def task(self, task_id: str) -> dict[str, Json]:
        return find_task(self.house, task_id)

    def state(self, task_id: str) -> str:
        task = self.task(task_id)
        return f"waiting:{task['waiting_for']}" if task["state"] == "waiting" else str(task["state"])

    def due(self) -> list[tuple[str, int]]:
        """The legs that may start now, in the queue's order."""
        listed = self._client.list_workflows(status=["ENQUEUED", "DELAYED"], name=LEG)
        listed.sort(key=lambda workflow: (workflow.priority or 0, workflow.created_at or 0))
        legs = [_leg(workflow.workflow_id) for workflow in listed]
        return [leg for leg in legs if self._is_due(*leg)]

    def step(self) -> str | None:
        """Run the first due leg; the answer is its task's id."""
        due = self.due()
        if not due:
            return None
        self.run(*due[0])
        return due[0][0]

    def run(self, task_id: str, leg: int) -> None:
        self.run_together([(task_id, leg)])

    def run_together(self, legs: Sequence[tuple[str, int]]) -> None:
        """Run these legs at once, as one worker does."""
        asyncio.run(self._run(legs))
        for leg in legs:
            self.forget(*leg)

    def legs(self) -> Legs:
        gates = Gatekeeper(self.house, self.egress)
        return Legs(self.house, self.slot, self.switchboard, self.room, gates, lay_on_desk, emit_in)

    async def _run(self, legs: Sequence[tuple[str, int]]) -> None:
        runner = self.legs()
        try:
            await asyncio.gather(*(runner.run(*leg) for leg in legs))
        finally:
            await self.room.close()

    def forget(self, task_id: str, leg: int) -> None:
        """Take a leg off the queue without running it."""
        self._client.delete_workflows([f"{task_id}:{leg}"])

    def run_all(self, most: int = 200) -> int:
        """Run legs until none is due."""
        for count in range(most):
            if self.step() is None:
                return count
        raise AssertionError(f"still legs due after {most}")

    def sweep(self) -> None:
        self.switchboard.refresh()
        sweeper.expire(self.house)
        sweeper.wake_switched_on(self.house, self.switchboard)
        sweeper.wake_turns_left(self.house)
        wake_joined(self.house)

    def settle(self, rounds: int = 12) -> None:
        """Let time pass until nothing changes any more: retries come due, switches and limits let tasks in."""
        for _ in range(rounds):
            self.run_all()
            self.sweep()
            self.clock.advance(60)
        self.run_all()

    def _is_due(self, task_id: str, leg: int) -> bool:
        with self.house.db.read() as conn:
            query = sa.select(tasks.c.leg, tasks.c.wake_at, tasks.c.not_before, tasks.c.dispatch)
            row = conn.execute(query.where(tasks.c.id == task_id)).one()
        opens = row.wake_at or (row.not_before if row.dispatch == 0 else None)
        return row.leg != leg or opens is None or opens <= self.clock.now()


def _leg(workflow_id: str) -> tuple[str, int]:
    task_id, _, leg = workflow_id.rpartition(":")
    return task_id, int(leg)
