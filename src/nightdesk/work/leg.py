"""Running legs: from the queue's call to the row that says what became of it."""

import asyncio
from datetime import timedelta
from typing import Any

from nightdesk.engine import Slot
from nightdesk.errors import NotFound
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.watch.logs import get_logger
from nightdesk.work.begin import Begun, begin_leg
from nightdesk.work.desk import Desk
from nightdesk.work.end import Failed, Finished, HandedBack, LegEnd, Outcome, Parked
from nightdesk.work.failure import AskPerson, GiveUp, Overrun
from nightdesk.work.journal import Journal, LegLost
from nightdesk.work.pause import Pause
from nightdesk.work.queue import return_leg

_log = get_logger("nightdesk.leg")
# How long a cancelled playbook may take to clean up before its leg ends without it.
_CLEAN_UP_SECONDS = 1.0
_DISK_PAUSE_SECONDS = 1.0


class Legs:
    """All legs of one worker. The engine calls `run`; SIGTERM calls `close_door`, then `leave`."""

    def __init__(self, house: House, slot: Slot, switchboard: Switchboard) -> None:
        self._house = house
        self._slot = slot
        self._switchboard = switchboard
        self._suspects = asyncio.Semaphore(1)
        self._closed = False
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, task_id: str, leg: int) -> None:
        self._loop = asyncio.get_running_loop()
        await self._wait_for_disk()
        if not await self._take(task_id, leg, alone=False):
            async with self._suspects:
                await self._take(task_id, leg, alone=True)

    def close_door(self) -> None:
        """From now on a leg that is called goes straight back to the queue."""
        self._closed = True

    def leave(self) -> None:
        """Stop the legs that are running and hand them back."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)

    async def _wait_for_disk(self) -> None:
        while self._house.disk.low() and not self._closed:  # noqa: ASYNC110 - freed space tells nobody
            await asyncio.sleep(_DISK_PAUSE_SECONDS)

    async def _take(self, task_id: str, leg: int, *, alone: bool) -> bool:
        """Run the leg if it may run now; false asks for it to be called again, alone."""
        if self._closed:
            await self._house.db.commit(lambda conn: return_leg(self._house, conn, task_id, leg))
            return True
        begun = await self._house.db.commit(
            lambda conn: begin_leg(
                self._house, conn, task_id, leg, slot=self._slot, switchboard=self._switchboard, alone=alone
            )
        )
        if isinstance(begun, Begun):
            await self._hold(begun)
        return begun != "alone"

    async def _hold(self, begun: Begun) -> None:
        log = _log.bind(job_id=begun.task["id"], playbook=begun.task["playbook"], dispatch=begun.dispatch)
        playbook, outcome = await self._outcome(begun)
        state = None
        if outcome is not None:
            end = LegEnd(self._house, playbook, begun, outcome)
            state = await self._house.db.commit(end.write)
        if state is None:
            log.warning("A leg was lost to another worker, or cancelled.", action="leg", status="lost")
            return
        took = round((self._house.clock.now() - begun.at).total_seconds() * 1000)
        log.info(
            "A leg ended.",
            action="leg",
            prior_state="working",
            state=state,
            status=type(outcome).__name__.lower(),
            duration_ms=took,
        )

    async def _outcome(self, begun: Begun) -> tuple[Playbook | None, Outcome | None]:
        """What came of the leg; no outcome means that the task is no longer this worker's."""
        try:
            playbook = self._house.registry.get(begun.task["playbook"])
        except NotFound as error:
            return None, Failed(GiveUp(error.problem))
        try:
            return playbook, await self._work(playbook, begun)
        except LegLost:
            return playbook, None
        except Exception as error:
            return playbook, Failed(error)

    async def _work(self, playbook: Playbook, begun: Begun) -> Outcome:
        if playbook.run is None:
            raise AskPerson(f"Playbook {playbook.name} has no code to run; give it a `run:` in its playbook.yaml.")
        task = begun.task
        left = timedelta(seconds=playbook.limits.time_seconds) - timedelta(milliseconds=task["worked_ms"])
        pause = Pause(lambda: self._is_stopped(task["playbook"], task["tenant"]))
        journal = Journal(self._house, begun, playbook.on_code_change)
        desk = Desk(task, journal, pause, self._house.clock, begun.at + left)
        body = asyncio.ensure_future(playbook.run(playbook.load_input(task["input"]), desk))
        outcome = await self._watch(body, pause, left.total_seconds())
        if isinstance(outcome, Finished):
            await journal.finish()
        return outcome

    async def _watch(self, body: "asyncio.Future[Any]", pause: Pause, seconds: float) -> Outcome:
        """Wait for the first of: the playbook's end, its rest, the worker's leaving, the time limit."""
        parked = asyncio.ensure_future(pause.reached())
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait({body, parked, leaving}, timeout=max(0, seconds), return_when="FIRST_COMPLETED")
            if body.cancelled():
                return Failed(RuntimeError("The playbook's code cancelled itself."))
            if body.done():
                return Finished(body.result())
            if parked.done():
                return Parked(pause.waits)
            if leaving.done():
                return HandedBack()
            return Failed(Overrun("The task's time limit was reached; the steps that it completed are kept."))
        finally:
            await _cancel(body, parked, leaving)

    def _is_stopped(self, playbook: str, tenant: str) -> bool:
        switch = self._switchboard.covering(playbook, tenant)
        return switch is not None and switch.mode == "stop"


async def _cancel(*futures: "asyncio.Future[Any]") -> None:
    running = [future for future in futures if not future.done()]
    for future in running:
        future.cancel()
    if running:
        await asyncio.wait(running, timeout=_CLEAN_UP_SECONDS)
