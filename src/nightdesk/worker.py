"""A worker process: one slot, the legs it runs, and the services that go on beside them."""

import signal
import threading
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from nightdesk.engine.runtime import Runtime
from nightdesk.engine.services import Service
from nightdesk.engine.slots import acquire, release
from nightdesk.engine.takeover import take_over
from nightdesk.engine.watchdog import Heartbeat, Watchdog
from nightdesk.errors import NightdeskError
from nightdesk.guard.switches import Switchboard
from nightdesk.house import House
from nightdesk.intake import Submission, emit_in, submit
from nightdesk.intake.gathering import dispatch_gathered
from nightdesk.model.collecting import Collecting
from nightdesk.model.last_call import call_back_due
from nightdesk.model.posting import Posting
from nightdesk.model.room import ModelRoom
from nightdesk.model.waves import form_waves
from nightdesk.model.withdrawing import withdraw
from nightdesk.night.keeping import attend_all, plan_due
from nightdesk.night.watches import watches
from nightdesk.review import Gatekeeper, lay_on_desk
from nightdesk.review.overdue import settle_overdue
from nightdesk.store import open_database
from nightdesk.watch import audit, courier
from nightdesk.watch.logs import get_logger
from nightdesk.work import sweeper
from nightdesk.work.joining import wake_joined
from nightdesk.work.leg import Legs
from nightdesk.work.queue import wake_those_waiting
from nightdesk.work.waking import wake_for_breakers, wake_for_money, wake_for_new_caps, wake_forgotten

_log = get_logger("nightdesk.worker")
# After the legs were told to leave, how long their last writes may take.
_LAST_WRITES_SECONDS = 2.0


class Worker:
    def __init__(self, house: House) -> None:
        self._house = house
        settings = house.settings.worker
        self._fresh = open_database(house.url, pooled=False, patience_seconds=settings.lease_seconds // 3)
        self.slot = acquire(self._fresh, settings.lease_seconds)
        self._switchboard = Switchboard(house.db)
        self._room = ModelRoom(house)
        self._legs = Legs(house, self.slot, self._switchboard, self._room, Gatekeeper(house), lay_on_desk, emit_in)
        self._runtime = Runtime(house.url, self.slot, settings, self._legs.run, self._tick)
        self._services = self._make_services()

    def start(self) -> None:
        self._switchboard.refresh()
        crons = [(p.name, p.when.cron, p.when.zone) for p in self._house.registry if p.when.kind == "cron"]
        self._runtime.launch(crons)
        wake_for_new_caps(self._house)
        for service in self._services:
            service.start()
        _log.info("The worker has started.", action="start", slot=self.slot.name, executor=self.slot.executor_id)

    def stop(self) -> None:
        """Claim nothing more; let legs finish for a while, then hand the rest back; leave the slot."""
        drain = self._house.settings.worker.drain_seconds
        self._legs.close_door()
        leave = threading.Timer(drain, self._legs.leave)
        leave.start()
        self._runtime.stop(drain + _LAST_WRITES_SECONDS)
        leave.cancel()
        for service in self._services:
            service.stop(wait_seconds=1)
        release(self._fresh, self.slot)
        self._fresh.close()
        _log.info("The worker has stopped.", action="stop", slot=self.slot.name)

    def _make_services(self) -> list[Service]:
        house, settings = self._house, self._house.settings
        probe = Heartbeat("queue-probe", self._runtime.probe)
        turn = Heartbeat("loop-probe", lambda: self._runtime.loop_answers(settings.worker.stall_seconds * 2.0))
        watchdog = Watchdog(
            self._fresh,
            self.slot,
            lease_seconds=settings.worker.lease_seconds,
            stall_seconds=settings.worker.stall_seconds,
            stalls={
                "the store": house.db.stalled_for,
                "the queue": probe.stalled_for,
                "the event loop": turn.stalled_for,
            },
        )
        head_file = house.home / settings.audit.head_file
        return [
            watchdog.service,
            probe.service,
            turn.service,
            Service("switches", 0.5, self._switchboard.refresh),
            Service("takeover", settings.worker.lease_seconds / 3, lambda: self._take_over(watchdog)),
            Service("sweep", 1.0, self._sweep),
            Service("wake", 1.0, self._wake),
            Service("mend", 30.0, self._mend),
            Service("forget", 60.0, lambda: sweeper.forget(house)),
            Service("seal", settings.audit.seal_seconds, lambda: audit.seal(house.db, house.clock, head_file)),
            Service("courier", 1.0, self._deliver),
            # Apart, so that a long plan does not hold up a hard stop.
            Service("plan", 1.0, lambda: plan_due(house)),
            Service("night", 1.0, lambda: attend_all(house), patient=False),
            *watches(house),
            *self._post_services(),
        ]

    def _post_services(self) -> list[Service]:
        """Waves out and back. Two of a kind, so that one provider that answers slowly does not hold up another."""
        room, holder, waves = self._room, self.slot.executor_id, self._house.settings.waves

        def wake(conn: sa.Connection, task_ids: Sequence[str]) -> None:
            wake_those_waiting(self._house, conn, task_ids)

        posting, collecting = Posting(room, holder, wake), Collecting(room, holder, wake)
        pause = min(1.0, waves.poll_seconds)
        return [
            Service("waves", min(1.0, waves.settle_seconds or 0.1), lambda: form_waves(room, wake)),
            Service("last-call", 5.0, lambda: call_back_due(room, wake)),
            Service("withdraw", 5.0, lambda: withdraw(room, wake)),
            *(Service(f"post-{number}", pause, posting.post_due) for number in (1, 2)),
            *(Service(f"collect-{number}", pause, collecting.collect_due) for number in (1, 2)),
        ]

    def _take_over(self, watchdog: Watchdog) -> None:
        client = self._house.dispatcher.client
        taken = take_over(self._house.db, client, self.slot, trust_leases=watchdog.trusts_leases())
        if taken:
            _log.info("Legs of dead workers are back on the queue.", action="takeover", count=taken)

    def _sweep(self) -> None:
        sweeper.expire(self._house)
        dispatch_gathered(self._house)
        sweeper.wake_switched_on(self._house, self._switchboard)
        sweeper.wake_turns_left(self._house)

    def _wake(self) -> None:
        wake_for_money(self._house)
        wake_for_breakers(self._house)
        wake_joined(self._house)

    def _mend(self) -> None:
        settle_overdue(self._house)
        sweeper.requeue_broken(self._house)
        wake_forgotten(self._house)

    def _deliver(self) -> None:
        house, settings = self._house, self._house.settings.callbacks
        courier.deliver_due(
            house.db,
            house.clock,
            courier.callback_secret(house.home),
            timeout=settings.timeout_seconds,
            longest_pause=settings.longest_pause_seconds,
        )

    def _tick(self, playbook: str, at: datetime) -> None:
        """A cron line fired: submit the playbook's stated input, keyed by the moment, so that it counts once."""
        stated = self._house.registry.get(playbook).when.input
        try:
            submit(self._house, Submission(playbook, stated, key=at.isoformat()), actor="cron")
        except NightdeskError as error:
            _log.error("A cron line's task was refused.", action="tick", playbook=playbook, error=str(error))
            raise


def run_worker(house: House) -> int:
    """Work until SIGTERM or SIGINT."""
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    worker = Worker(house)
    worker.start()
    done.wait()
    worker.stop()
    return 0
