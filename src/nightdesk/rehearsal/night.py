"""One worker stepped by hand through a night: legs that are due, waves that are ready, then the clock moves on."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.engine.slots import acquire
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.intake import emit_in
from nightdesk.model.collecting import Collecting
from nightdesk.model.deadline import last_call
from nightdesk.model.last_call import call_back_due
from nightdesk.model.posting import Posting
from nightdesk.model.room import ModelRoom
from nightdesk.model.waves import form_waves
from nightdesk.model.withdrawing import withdraw
from nightdesk.night.keeping import attend
from nightdesk.night.planning import make_plan
from nightdesk.night.schedule import read_night
from nightdesk.rehearsal.clock import JumpingClock
from nightdesk.rehearsal.plan import Plan
from nightdesk.review import Gatekeeper, lay_on_desk
from nightdesk.store import batches, calls, tasks
from nightdesk.work import sweeper
from nightdesk.work.leg import Legs
from nightdesk.work.queue import wake_those_waiting
from nightdesk.work.states import ENDS
from nightdesk.work.waking import wake_for_money, wake_forgotten

# The services of a worker go on every second, but while nothing happens this is often enough.
_SOON = timedelta(seconds=1)
_STEP = timedelta(minutes=5)
_LEASE_SECONDS = 365 * 86_400
_HAS_ENDED = tasks.c.state.in_((*ENDS, "review"))


class Night:
    def __init__(self, house: House, clock: JumpingClock, room: ModelRoom, plan: Plan) -> None:
        self._house = house
        self._batch_takes = timedelta(seconds=plan.batch_seconds)
        self._clock = clock
        self._room = room
        self._window = plan.window
        self._stop = plan.window.stop
        self._nightly = [playbook.name for playbook in house.registry if playbook.when.is_nightly]
        self._switchboard = Switchboard(house.db)
        self._legs_at_once = house.settings.worker.concurrency
        self._slot = acquire(house.db, _LEASE_SECONDS)
        self._posting = Posting(room, "rehearsal", self._wake)
        self._collecting = Collecting(room, "rehearsal", self._wake)

    def run(self, tell: Callable[[int, int, datetime], None]) -> None:
        """As a night by hand, for which every playbook is good enough; it ends when there is nothing left to do."""
        total = self._count(sa.true())
        name = self._plan_it()
        try:
            attend(self._house, read_night(self._house, name))
            while self._clock.now() < self._stop:
                self._run_legs()
                self._do_services()
                tell(self._count(_HAS_ENDED), total, self._clock.now())
                attend(self._house, read_night(self._house, name))  # what came after the others may begin now
                if not self._move_on():
                    break
            attend(self._house, read_night(self._house, name))
        finally:
            asyncio.run(self._room.close())

    def _plan_it(self) -> str:
        anyway = dict.fromkeys(self._nightly, "it is a rehearsal")
        window = replace(self._window, cutoff=self._window.start)
        return make_plan(self._house, window, self._nightly, by_hand=True, anyway=anyway)

    def _run_legs(self) -> None:
        while self._clock.now() < self._stop and (due := self._due()):
            asyncio.run(self._run(due))
            self._clock.end_round()

    async def _run(self, due: list[tuple[str, int]]) -> None:
        legs = Legs(
            self._house, self._slot, self._switchboard, self._room, Gatekeeper(self._house), lay_on_desk, emit_in
        )
        try:
            await asyncio.gather(*(legs.run(*leg) for leg in due))
        finally:
            await self._room.close()

    def _due(self) -> list[tuple[str, int]]:
        now = self._clock.now()
        first = tasks.c.rank.is_not(None) & tasks.c.state.in_(("queued", "planned"))
        first |= (tasks.c.state == "queued") & tasks.c.playbook.not_in(self._nightly) & tasks.c.until.is_(None)
        first &= tasks.c.not_before.is_(None) | (tasks.c.not_before <= now)
        woken = (tasks.c.state == "waiting") & (tasks.c.rank.is_not(None) | (tasks.c.wake_at <= now))
        query = sa.select(tasks.c.id, tasks.c.leg).where(first | woken)
        query = query.order_by(tasks.c.priority, tasks.c.rank, tasks.c.created_at).limit(self._legs_at_once)
        with self._house.db.read() as conn:
            return [(row.id, row.leg) for row in conn.execute(query)]

    def _do_services(self) -> None:
        """What goes on beside the legs of a worker."""
        form_waves(self._room, self._wake)
        self._posting.post_due()
        self._collecting.collect_due()
        call_back_due(self._room, self._wake)
        withdraw(self._room, self._wake)
        sweeper.expire(self._house)
        sweeper.wake_turns_left(self._house)
        wake_for_money(self._house)
        wake_forgotten(self._house)

    def _move_on(self) -> bool:
        """Move the clock to the next thing that may happen; false if nothing more will."""
        now = self._clock.now()
        moments = [now] if self._due() else self._moments(now)
        if not moments:
            return False
        latest = now + _STEP if self._is_out() else self._stop
        self._clock.move_to(min(max(min(moments), now + _SOON), latest))
        return True

    def _moments(self, now: datetime) -> list[datetime]:
        with self._house.db.read() as conn:
            of_tasks, out = self._of_tasks(conn), [*self._of_waves(conn, now), *self._of_batches(conn, now)]
        ends = last_call(self._house.settings.night, self._stop)
        return [*of_tasks, *out, *([ends] if out and ends > now else [])]

    def _of_tasks(self, conn: sa.Connection) -> list[datetime]:
        wake_at = sa.select(sa.func.min(tasks.c.wake_at)).where(tasks.c.state == "waiting")
        opens = sa.select(sa.func.min(tasks.c.not_before)).where(tasks.c.state == "queued")
        return [moment for query in (wake_at, opens) if (moment := conn.execute(query).scalar())]

    def _of_waves(self, conn: sa.Connection, now: datetime) -> list[datetime]:
        """When the next wave has settled; when it has waited for its canary, or for room, for long enough."""
        waves = self._house.settings.waves
        joined = sa.select(sa.func.max(calls.c.joined_at), sa.func.min(calls.c.joined_at))
        newest, oldest = conn.execute(joined.where(calls.c.status == "wanted")).one()
        if newest is None:
            return []
        settled = newest + timedelta(seconds=waves.settle_seconds)
        overdue = oldest + timedelta(seconds=waves.longest_wait_seconds)
        return [moment if moment > now else now + _STEP for moment in (settled, overdue)]

    def _of_batches(self, conn: sa.Connection, now: datetime) -> list[datetime]:
        """When those that are out are looked at with success. Of those that are late, now and then."""
        out = sa.select(batches.c.next_at, batches.c.submitted_at).where(batches.c.ended_at.is_(None))
        moments = []
        for next_at, submitted_at in conn.execute(out):
            ready = (submitted_at or now) + self._batch_takes + _SOON
            is_late = submitted_at is not None and now - ready > _STEP
            expected = ready if submitted_at is not None and ready > now else next_at
            moments.append(max(expected, now + _STEP if is_late else next_at))
        return moments

    def _is_out(self) -> bool:
        with self._house.db.read() as conn:
            out = sa.exists().where(calls.c.status.in_(("wanted", "sent")))
            return bool(conn.execute(sa.select(out)).scalar())

    def _count(self, which: sa.ColumnElement[bool]) -> int:
        with self._house.db.read() as conn:
            return conn.execute(sa.select(sa.func.count()).select_from(tasks).where(which)).scalar_one()

    def _wake(self, conn: sa.Connection, task_ids: Sequence[str]) -> None:
        wake_those_waiting(self._house, conn, task_ids)
