"""A house to try a playbook out in: its tasks and their drafts are nobody's work, and are gone with it."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.engine.slots import acquire
from nightdesk.guard.egress import Egress
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House, open_beside
from nightdesk.intake import Submission, emit_in, submit
from nightdesk.model.room import ModelRoom
from nightdesk.playbook import Registry, When
from nightdesk.review.expectations import Ended
from nightdesk.review.gatekeeper import Gatekeeper
from nightdesk.review.laying import lay_on_desk
from nightdesk.settings import BudgetSettings
from nightdesk.store import drafts, events, tasks
from nightdesk.work.draft import Verdict
from nightdesk.work.leg import Legs
from nightdesk.work.states import ENDS

_LEASE_SECONDS = 24 * 3600
# A longer pause than that between two tries is no trial any more.
_LONGEST_PAUSE_SECONDS = 120.0
_TURN_SECONDS = 0.05


@contextmanager
def staged(house: House, cap: Decimal) -> Iterator[House]:
    """A house with the same playbooks and settings, in which all tasks start at once and ask in the live lane, and all
    of it may cost so much."""
    live = [
        replace(book, when=When(kind="now"), window={}, asking=replace(book.asking, lane="live"))
        for book in house.registry
    ]
    with tempfile.TemporaryDirectory(prefix="nightdesk-test-") as folder:
        budget = BudgetSettings(day=str(cap), task=house.settings.budget.task)
        stage = open_beside(house, Path(folder), Registry(live), budget=budget)
        try:
            yield stage
        finally:
            stage.close()


class Stage:
    """Runs tasks of the house's one after the other or beside each other, each to its end."""

    def __init__(self, house: House, egress: Egress | None = None) -> None:
        self._house = house
        self._room = ModelRoom(house)
        slot = acquire(house.db, _LEASE_SECONDS)
        self._legs = Legs(
            house, slot, Switchboard(house.db), self._room, Gatekeeper(house, egress), lay_on_desk, emit_in
        )

    async def close(self) -> None:
        await self._room.close()

    async def run(self, playbook: str, values: Json, key: str) -> Ended:
        began = time.monotonic()
        submission = Submission(playbook, values, key=key, tenant="test")
        receipt = await asyncio.to_thread(submit, self._house, submission, actor="test")
        await self._finish(receipt.id)
        return await asyncio.to_thread(self._ended, receipt.id, time.monotonic() - began)

    async def _finish(self, task_id: str) -> None:
        while await self._step(await asyncio.to_thread(self._look, task_id)):
            pass

    async def _step(self, task: Any) -> bool:
        """Bring the task on; false if nothing more can be done for it here."""
        if task["state"] in ENDS or task["state"] == "review":
            return False
        if task["state"] == "waiting" and task["rank"] is None:
            return await self._wait(task)
        await self._legs.run(task["id"], task["leg"])
        return True

    async def _wait(self, task: Any) -> bool:
        clock = self._house.clock
        if task["waiting_for"] == "tasks":
            return await self._finish_children(task)
        if task["waiting_for"] == "turn":  # whoever has the place wakes it
            await asyncio.sleep(_TURN_SECONDS)
            return True
        wake_at: datetime | None = task["wake_at"]
        pause = (wake_at - clock.now()).total_seconds() if wake_at else _LONGEST_PAUSE_SECONDS
        if pause >= _LONGEST_PAUSE_SECONDS:
            return False
        await clock.sleep(max(0.0, pause))
        await self._legs.run(task["id"], task["leg"])
        return True

    async def _finish_children(self, task: Any) -> bool:
        children = await asyncio.to_thread(self._children, task["id"])
        await asyncio.gather(*(self._finish(child) for child in children))
        now = await asyncio.to_thread(self._look, task["id"])
        return now["rank"] is not None or now["state"] != "waiting"

    def _children(self, task_id: str) -> list[str]:
        with self._house.db.read() as conn:
            return list(conn.scalars(sa.select(tasks.c.id).where(tasks.c.parent_id == task_id)))

    def _look(self, task_id: str) -> Any:
        with self._house.db.read() as conn:
            return conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one()

    def _ended(self, task_id: str, seconds: float) -> Ended:
        last = sa.select(events.c.cause).where(events.c.task_id == task_id, events.c.kind == "state")
        found = sa.select(drafts.c.gates).where(drafts.c.task_id == task_id).order_by(drafts.c.version.desc())
        with self._house.db.read() as conn:
            task = conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one()
            why = conn.execute(last.order_by(events.c.id.desc()).limit(1)).scalar_one()
            told = conn.execute(found.limit(1)).scalar() or []
            own = (tasks.c.id == task_id) | (tasks.c.parent_id == task_id)
            costs = conn.scalars(sa.select(tasks.c.cost_usd).where(own)).all()
        verdicts = [Verdict(**verdict) for verdict in told]
        findings = [(verdict.gate, verdict.sentence) for verdict in verdicts if not verdict.passed]
        state = "person" if task["state"] == "review" and task["result"] is None else task["state"]
        return Ended(state, why, task["result"], findings, sum(costs, Decimal(0)), seconds)
