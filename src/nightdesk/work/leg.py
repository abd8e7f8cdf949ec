"""Running legs: from the queue's call to the row that says what became of it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from nightdesk.engine import Slot
from nightdesk.errors import AskPerson, GiveUp, LegLost, NotFound, Overrun
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.model.asker import Asker
from nightdesk.model.room import ModelRoom
from nightdesk.playbook import Playbook
from nightdesk.watch.logs import get_logger
from nightdesk.work.agent import can_follow, draft_by_instructions
from nightdesk.work.begin import Begun, begin_leg
from nightdesk.work.desk import Desk
from nightdesk.work.draft import Check, Draft, Lay
from nightdesk.work.emit import Emit
from nightdesk.work.end import CutOff, Failed, Finished, HandedBack, LegEnd, Outcome, Parked
from nightdesk.work.joining import Children
from nightdesk.work.journal import Journal
from nightdesk.work.nightly import OVER
from nightdesk.work.pause import Pause, Wait
from nightdesk.work.queue import return_leg
from nightdesk.work.states import Task

_log = get_logger("nightdesk.leg")
# How long a cancelled playbook may take to clean up before its leg ends without it.
_CLEAN_UP_SECONDS = 1.0
_DISK_PAUSE_SECONDS = 1.0
# After the hard stop nothing begins; what is under way has this long, for an answer that is lost is paid twice.
_LAST_STEPS = timedelta(seconds=8)
# How often a leg of the night looks at the clock: a timer would stand still while the machine sleeps.
_CLOCK_SECONDS = 0.5


class Legs:
    """All legs of one worker. The engine calls `run`; SIGTERM calls `close_door`, then `leave`.

    `check` holds each draft against the gates of its playbook, as a part of the leg; `lay` lays before a person what
    only a person can decide, in the transaction that ends it; `emit` hands in what a task makes for other playbooks.
    """

    def __init__(
        self, house: House, slot: Slot, switchboard: Switchboard, room: ModelRoom, check: Check, lay: Lay, emit: Emit
    ) -> None:
        self._house = house
        self._slot = slot
        self._switchboard = switchboard
        self._room = room
        self._check = check
        self._lay = lay
        self._emit = emit
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
            end = LegEnd(self._house, playbook, begun, outcome, self._lay, self._emit)
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
        pause = Pause(lambda: self._held_up(task))
        journal = Journal(self._house, begun, playbook.on_code_change)
        asker = Asker(self._room, task, begun.dispatch, playbook, pause)
        deadline = min(begun.at + left, task["until"] or begun.at + left)
        children = Children(self._house, task, self._emit)
        desk = Desk(task, journal, pause, asker, self._house.clock, deadline, children, begun.sent_back)
        order = playbook.load_input(task["input"])
        body = asyncio.ensure_future(self._draft(playbook, order, desk))
        try:
            outcome = await self._watch(body, pause, left.total_seconds(), task["until"])
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

    async def _draft(self, playbook: Playbook, order: Any, desk: Desk) -> Draft:
        if playbook.run is None:
            return await draft_by_instructions(playbook, order, desk, self._check)
        return await self._check(playbook, order, playbook.check_output(await playbook.run(order, desk)), desk)

    async def _watch(
        self, body: "asyncio.Future[Any]", pause: Pause, seconds: float, until: datetime | None
    ) -> Outcome:
        """Wait for the first of: the playbook's end or rest, the worker's leaving, the night's end, the time limit."""
        parked = asyncio.ensure_future(pause.reached())
        leaving = asyncio.ensure_future(self._leaving.wait())
        over = asyncio.ensure_future(self._cut_off(until))
        try:
            ends = {body, parked, leaving, over}
            await asyncio.wait(ends, timeout=max(0, seconds), return_when="FIRST_COMPLETED")
            if body.cancelled() and pause.error is None:
                return Failed(RuntimeError("The playbook's code cancelled itself."))
            if body.done() and pause.error is None:
                return Finished(body.result())
            if pause.error is not None:
                raise pause.error
            waits = [wait for wait in pause.waits if wait.why != OVER]
            if over.done() or (parked.done() and not waits):
                return CutOff()
            if parked.done():
                return Parked(waits)
            if leaving.done():
                return HandedBack()
            return Failed(Overrun("The task's time limit was reached; the steps that it completed are kept."))
        finally:
            await _cancel(body, parked, leaving, over)

    async def _cut_off(self, until: datetime | None) -> None:
        """Return when the night is over, and what was under way then has had its time to end; or never."""
        if until is None:
            await asyncio.Event().wait()
            return
        end = until + _LAST_STEPS
        while (left := (end - self._house.clock.now()).total_seconds()) > 0:  # noqa: ASYNC110 - time tells nobody
            await asyncio.sleep(min(left, _CLOCK_SECONDS))

    def _held_up(self, task: Task) -> Wait | None:
        """Why no further step of the leg may begin."""
        switch = self._switchboard.covering(task["playbook"], task["tenant"])
        if switch is not None and switch.mode == "stop":
            return Wait("switch")
        is_over = task["until"] is not None and task["until"] <= self._house.clock.now()
        return Wait("time", why=OVER) if is_over else None


async def _cancel(*futures: "asyncio.Future[Any]") -> None:
    running = [future for future in futures if not future.done()]
    for future in running:
        future.cancel()
    if running:
        await asyncio.wait(running, timeout=_CLEAN_UP_SECONDS)
