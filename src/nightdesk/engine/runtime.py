"""DBOS, launched: the one place where a process becomes an executor."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from nightdesk.engine.dispatch import APP, COMPATIBILITY, LEG, QUEUE
from nightdesk.engine.safety import quiet_dbos, refuse_pickle
from nightdesk.engine.slots import Slot
from nightdesk.settings import WorkerSettings

RunLeg = Callable[[str, int], Awaitable[None]]
Tick = Callable[[str, datetime], None]

_TICK = "tick"


class Runtime:
    """Calls `run_leg` for each leg that this worker claims, and `tick` for each firing of a cron line."""

    def __init__(self, url: str, slot: Slot, settings: WorkerSettings, run_leg: RunLeg, tick: Tick) -> None:
        self._settings = settings
        self._run_leg = run_leg
        self._tick = tick
        self._loop: asyncio.AbstractEventLoop | None = None
        quiet_dbos()
        refuse_pickle()
        config: DBOSConfig = {
            "name": APP,
            "system_database_url": url,
            "application_version": COMPATIBILITY,
            "executor_id": slot.executor_id,
            "serializer": DBOSPortableJSONSerializer(),
            "sys_db_idle_transaction_timeout_sec": 5,
            "sys_db_pool_size": 10,
            "notification_listener_polling_interval_sec": 1,
            "run_migrations": False,
            "log_level": "WARNING",
        }
        DBOS(config=config)

    def launch(self, crons: list[tuple[str, str, str]]) -> None:
        """Start claiming legs. `crons` are (playbook, cron line, time zone)."""

        # Our own count of starts ends a poison task; this one must only stay out of its way.
        @DBOS.workflow(name=LEG, max_recovery_attempts=1000)
        async def leg(task_id: str, number: int) -> None:
            self._loop = asyncio.get_running_loop()
            await self._run_leg(task_id, number)

        @DBOS.workflow(name=_TICK)
        async def tick(scheduled_at: datetime, context: Any) -> None:
            await asyncio.to_thread(self._tick, context, scheduled_at)

        DBOS.launch()
        DBOS.register_queue(
            QUEUE,
            worker_concurrency=self._settings.concurrency,
            polling_interval_sec=self._settings.poll_seconds,
            on_conflict="always_update",
        )
        self._schedule(crons, tick)

    def probe(self) -> None:
        """One round trip through DBOS's own connections; returns only if they carry data."""
        DBOS.retrieve_queue(QUEUE)

    def loop_answers(self, within: float) -> bool:
        """Whether the event loop that runs the legs turns. Code that blocks it stops every leg of this worker."""
        if self._loop is None:
            return True
        asked = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        deadline = time.monotonic() + within
        while not asked.done() and time.monotonic() < deadline:
            time.sleep(0.05)
        return asked.done()

    def stop(self, wait_seconds: float) -> None:
        """Claim nothing more, at once; wait for the running legs to end."""
        DBOS.destroy(workflow_completion_timeout_sec=max(1, round(wait_seconds)))

    def _schedule(self, crons: list[tuple[str, str, str]], tick: Any) -> None:
        wanted = {f"playbook-{playbook}" for playbook, _, _ in crons}
        for known in DBOS.list_schedules():
            if known["schedule_name"].startswith("playbook-") and known["schedule_name"] not in wanted:
                DBOS.delete_schedule(known["schedule_name"])
        DBOS.apply_schedules(
            [
                {
                    "schedule_name": f"playbook-{playbook}",
                    "workflow_fn": tick,
                    "schedule": cron,
                    "context": playbook,
                    "cron_timezone": zone,
                    "automatic_backfill": True,
                }
                for playbook, cron, zone in crons
            ]
        )
