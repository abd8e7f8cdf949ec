"""A house that asks models: its legs stepped by hand, a simulator as its providers, one time that passes for both."""

import asyncio
import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from nightdesk.calendar import running_nights
from nightdesk.clock import SetClock
from nightdesk.house import House
from nightdesk.model.collecting import Collecting
from nightdesk.model.posting import Posting
from nightdesk.model.room import ModelRoom
from nightdesk.model.simulator import Fault, Running, Simulator
from nightdesk.model.waves import form_waves
from nightdesk.model.withdrawing import withdraw
from nightdesk.settings import Settings
from nightdesk.store import calls, events, metadata, nights, tasks
from nightdesk.work.nightly import join_night
from nightdesk.work.queue import wake_those_waiting
from nightdesk.work.states import require_task
from nightdesk.work.waking import wake_for_breakers, wake_for_money, wake_forgotten
from tests.model.plain import without_nightdesk
from tests.support.hand import Body, Hand

# The price data knows the prices of batches from this autumn on.
START = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
Carrier = TypeVar("Carrier", Posting, Collecting)

CLAUDE, GPT, GEMINI = "anthropic:claude-haiku-4-5", "openai:gpt-5-mini", "google:gemini-2.5-flash"


class SharedClock(SetClock):
    """Who sleeps by it moves the time of its simulator too."""

    def __init__(self, start: datetime, simulator: Simulator) -> None:
        super().__init__(start)
        self._simulator = simulator

    def move_to(self, moment: datetime) -> None:
        before = self.now()
        super().move_to(moment)
        self._simulator.advance((self.now() - before).total_seconds())


class AskingHouse(Hand):
    """`simulator` and `url` are its providers; the SDKs find them in their own environment variables."""

    def __init__(self, house: House, clock: SetClock, running: Running) -> None:
        super().__init__(house, clock)
        self.url = running.url
        self.simulator: Simulator = running.simulator
        self.simulator.advance(clock.now().timestamp() - self.simulator.now())

    def have(self, body: Body | None = None, **stated: Any) -> None:
        self.close_room()
        super().have(body, **stated)

    def close_room(self) -> None:
        """Give back the connections for batches, which no leg has used and closed."""
        asyncio.run(self.room.close())

    def set(self, **sections: dict[str, Any]) -> None:
        """Change settings: `set(waves={"canary": False})`."""
        stated = self.house.settings.model_dump()
        changed = {name: stated[name] | values for name, values in sections.items()}
        self.house = dataclasses.replace(self.house, settings=Settings.model_validate(stated | changed))
        self.close_room()
        self.room = ModelRoom(self.house)

    def fault(self, kind: Any, **more: Any) -> None:
        self.simulator.faults.add(Fault(kind, **more))

    def ask(self, body: Body, *, name: str = "a", **stated: Any) -> dict[str, Any]:
        """One task of a playbook that runs `body`, followed until nothing changes any more."""
        self.have(body, **stated)
        task_id = self.submit("job", {"name": name}).id
        self.settle()
        return self.task(task_id)

    def dispatch(self, *task_ids: str) -> None:
        """Let this work, new or left over, take part in the night that it is now, which is open."""
        now, house = self.clock.now(), self.house
        [window] = running_nights(house.settings.night, now)
        night = {
            "name": window.name, "state": "open", "cutoff_at": window.cutoff, "starts_at": window.start,
            "stops_at": window.stop, "summary_at": window.summary, "planned_at": now, "opened_at": now, "moved_at": now,
            "plan": {},
        }  # fmt: skip
        with house.db.write() as conn:
            conn.execute(house.db.upsert(nights).values(night).on_conflict_do_nothing())
            for task_id in task_ids:
                task = require_task(conn, task_id)
                until = window.stop
                join_night(house, conn, now, task, window.name, until, cause="night", actor="test", dispatch=True)

    def settle(self, rounds: int = 60) -> None:
        """Run legs, send waves, let a minute pass, collect, until a minute brings nothing new."""
        for _ in range(rounds):
            moved = self.run_all() + self.send_waves()
            self.pass_time(60)
            moved += self.collect()
            self.sweep()
            if not moved and not self.due():
                return
        raise AssertionError(f"it has not come to rest after {rounds} rounds")

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.simulator.advance(seconds)

    def send_waves(self) -> int:
        """The answer is how many waves and batches moved."""
        self.pass_time(self.house.settings.waves.settle_seconds)
        return form_waves(self.room, self._wake) + self._carrier(Posting).post_due()

    def collect(self) -> int:
        return self._carrier(Collecting).collect_due()

    def sweep(self) -> None:
        super().sweep()
        wake_for_money(self.house)
        wake_for_breakers(self.house)
        wake_forgotten(self.house)
        withdraw(self.room, self._wake)

    def calls(self, task_id: str | None = None) -> Sequence[Any]:
        """Rows of calls, in the order in which they were first asked for."""
        query = sa.select(calls).order_by(calls.c.created_at, calls.c.position)
        with self.house.db.read() as conn:
            return conn.execute(query if task_id is None else query.where(calls.c.task_id == task_id)).all()

    def tasks(self) -> Sequence[Any]:
        with self.house.db.read() as conn:
            return conn.execute(sa.select(tasks).order_by(tasks.c.created_at, tasks.c.key)).all()

    def lanes(self) -> list[str]:
        return [call.lane for call in self.calls()]

    def divergences(self) -> list[str]:
        query = sa.select(events.c.cause).where(events.c.kind == "divergence").order_by(events.c.id)
        with self.house.db.read() as conn:
            return list(conn.scalars(query))

    def meter(self) -> dict[str, Any]:
        """The providers' bill: `executions`, `repeated`, and `by` provider and lane."""
        return self.simulator.report()

    def dump(self) -> str:
        """Every row of every table, as text."""
        with self.house.db.read() as conn:
            return "\n".join(
                str(tuple(row)) for table in metadata.sorted_tables for row in conn.execute(table.select())
            )

    def _carrier(self, kind: type[Carrier]) -> Carrier:
        return kind(self.room, self.slot.executor_id, self._wake)

    def _wake(self, conn: sa.Connection, task_ids: Sequence[str]) -> None:
        wake_those_waiting(self.house, conn, task_ids)


def answers_alike(asking: AskingHouse, body: Body, **stated: Any) -> Sequence[Any]:
    """What the body returns is the same without Nightdesk, live, and through batches; each call is paid once.

    The answer are the calls of the task in the batch lane. What a body asks must not depend on the task."""
    plain = without_nightdesk(body)
    asking.set(waves={"canary": False})
    for lane in ("live", "batch"):
        asking.simulator.meter.clear()
        task = asking.ask(body, name=lane, lane=lane, **stated)
        assert (task["state"], task["result"], task["error"]) == ("done", plain, None)
        calls = asking.calls(task["id"])
        assert {(call.status, call.lane) for call in calls} == {("done", lane)}
        assert (asking.meter()["executions"], asking.meter()["repeated"]) == (len(calls), 0)
    assert asking.divergences() == []
    return calls
