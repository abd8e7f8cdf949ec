"""Running legs: from the queue's call to the row that says what became of it."""

import asyncio
from datetime import timedelta
from typing import Any

from nightdesk.engine import Slot
from nightdesk.errors import AskPerson, GiveUp, LegLost, NotFound, Overrun
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.model.asker import Asker
from nightdesk.model.room import ModelRoom
from nightdesk.playbook import Playbook
from nightdesk.watch.logs import get_logger
from nightdesk.work.agent import can_follow, follow_instructions
from nightdesk.work.begin import Begun, begin_leg
from nightdesk.work.desk import Desk
from nightdesk.work.end import Failed, Finished, HandedBack, LegEnd, Outcome, Parked
from nightdesk.work.journal import Journal
from nightdesk.work.pause import Pause
from nightdesk.work.queue import return_leg

_log = get_logger("nightdesk.leg")
# How long a cancelled playbook may take to clean up before its leg ends without it.
_CLEAN_UP_SECONDS = 1.0
_DISK_PAUSE_SECONDS = 1.0


class Legs:
    """All legs of one worker. The engine calls `run`; SIGTERM calls `close_door`, then `leave`."""

    def __init__(self, house: House, slot: Slot, switchboard: Switchboard, room: ModelRoom) -> None:
        self._house = house
        self._slot = slot
        self._switchboard = switchboard
        self._room = room
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
        if playbook.run is None and not can_follow(playbook):
            raise AskPerson(
                f"Playbook {playbook.name} has no code to run, nor a model with instructions to follow: "
                "give it `run:`, or `model:` and `instructions:`."
            )
        task = begun.task
        left = timedelta(seconds=playbook.limits.time_seconds) - timedelta(milliseconds=task["worked_ms"])
        pause = Pause(lambda: self._is_stopped(task["playbook"], task["tenant"]))
        journal = Journal(self._house, begun, playbook.on_code_change)
        asker = Asker(self._room, task, begun.dispatch, playbook, pause)
        desk = Desk(task, journal, pause, asker, self._house.clock, begun.at + left)
        order = playbook.load_input(task["input"])
        body = asyncio.ensure_future(
            playbook.run(order, desk) if playbook.run else follow_instructions(playbook, order, desk)
        )
        try:
            outcome = await self._watch(body, pause, left.total_seconds())
        except Exception as error:
            if asker.refused:
                raise AskPerson(f"The provider refuses for its policy: {asker.refused}") from error
            raise
        finally:
            asker.close()
        if isinstance(outcome, Finished | Parked):
            await journal.check_calls(await asker.unasked(at_end=isinstance(outcome, Finished)))
        if isinstance(outcome, Finished):
            await journal.finish()
        return outcome

    async def _watch(self, body: "asyncio.Future[Any]", pause: Pause, seconds: float) -> Outcome:
        """Wait for the first of: the playbook's end, its rest, the worker's leaving, the time limit."""
        parked = asyncio.ensure_future(pause.reached())
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait({body, parked, leaving}, timeout=max(0, seconds), return_when="FIRST_COMPLETED")
            if body.cancelled() and pause.error is None:
                return Failed(RuntimeError("The playbook's code cancelled itself."))
            if body.done() and pause.error is None:
                return Finished(body.result())
            if pause.error is not None:
                raise pause.error
            if parked.done():
                return Parked(list(pause.waits))
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
