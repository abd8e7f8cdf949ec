"""A week of nights in Berlin, in which the clocks change: a quiet one, one that ends late, a worker that dies, a
holiday, a short one, a day off, an outage, and reviewers who have too little time. Nothing is lost or paid twice."""

from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.engine.slots import acquire
from nightdesk.store import tasks
from nightdesk.work.begin import Begun, begin_leg
from tests.night.keeper import AskingKeeper, asks, utc

_SETTINGS: dict[str, Any] = {
    "zone": "Europe/Berlin", "days": ["mon", "tue", "wed", "thu", "fri", "sat"], "holidays": ["2026-03-27"],
}  # fmt: skip
# Cut-off, start and hard stop of each night, in UTC: summer begins in the night of the 28th.
_NIGHTS = {
    "2026-03-24": ("2026-03-24T16:00:00", "2026-03-25T00:00:00", "2026-03-25T04:00:00"),
    "2026-03-25": ("2026-03-25T16:00:00", "2026-03-26T00:00:00", "2026-03-26T04:00:00"),
    "2026-03-26": ("2026-03-26T16:00:00", "2026-03-27T00:00:00", "2026-03-27T04:00:00"),
    "2026-03-28": ("2026-03-28T16:00:00", "2026-03-29T00:00:00", "2026-03-29T03:00:00"),
    "2026-03-30": ("2026-03-30T15:00:00", "2026-03-30T23:00:00", "2026-03-31T03:00:00"),
    "2026-03-31": ("2026-03-31T15:00:00", "2026-03-31T23:00:00", "2026-04-01T03:00:00"),
    "2026-04-01": ("2026-04-01T15:00:00", "2026-04-01T23:00:00", "2026-04-02T03:00:00"),
}


@pytest.mark.timeout(180)
def test_a_week_of_nights(asking_keeper: AskingKeeper) -> None:
    week = _Week(asking_keeper)
    week.quiet()
    week.ends_late()
    week.loses_a_worker()
    week.has_a_holiday()
    week.is_an_hour_shorter()
    week.has_a_day_off()
    week.meets_an_outage()
    week.has_too_few_reviewers()
    week.comes_to_its_end()


class _Week:
    def __init__(self, keeper: AskingKeeper) -> None:
        self.keeper = keeper
        keeper.set(night=_SETTINGS)
        keeper.have(asks, output={"text": "string"}, risk="customer", review={"minutes": 4}, sla="2d")
        keeper.look("2026-03-24T09:00:00")

    def quiet(self) -> None:
        """What was handed in by the cut-off is on the desk in the morning; the rest is for the next night."""
        early = self.add("a", "b", "c")
        self.cut_off("2026-03-24")
        self.keeper.clock.advance(1)
        late = self.add("d")
        figures = self.run("2026-03-24")
        assert self.states(early + late) == ["review"] * 3 + ["queued"]
        assert (figures["new"], figures["review"], figures["waiting"]) == (4, 3, {})

    def ends_late(self) -> None:
        """Its batch is not back at the hard stop: the answers are kept, and the next night goes on with them."""
        self.keeper.simulator.behaviour.change({"batch_seconds": 20_000.0, "cancel_seconds": 3600.0})
        self.late = self.add("e", "f", "g")
        self.cut_off("2026-03-25")
        figures = self.run("2026-03-25")
        self.keeper.simulator.behaviour.change({"batch_seconds": 2400.0, "cancel_seconds": 0.0})
        assert figures["waiting"]["batch"] > 0
        self.keeper.work_until("2026-03-26T09:00:00", step_seconds=3600)
        assert "waiting:batch" not in self.states(self.late)

    def loses_a_worker(self) -> None:
        """A worker dies with a leg in its hands; at the hard stop the task is taken from it, and goes home."""
        self.orphan = self.add("h")[0]
        self.cut_off("2026-03-26")
        self.keeper.look(_NIGHTS["2026-03-26"][1])
        self.die_with(self.orphan)
        figures = self.run("2026-03-26")
        assert self.states(self.late) == ["review"] * 3
        assert (self.keeper.state(self.orphan), figures["waiting"]) == ("waiting:time", {"time": 1})

    def has_a_holiday(self) -> None:
        self.holiday = self.add("i")
        self.keeper.work_until("2026-03-28T09:00:00", step_seconds=3 * 3600)
        assert "2026-03-27" not in self.keeper.nights()
        assert self.states([self.orphan, *self.holiday]) == ["waiting:time", "queued"]

    def is_an_hour_shorter(self) -> None:
        self.cut_off("2026-03-28")
        self.run("2026-03-28")
        assert self.states([self.orphan, *self.holiday]) == ["review"] * 2

    def has_a_day_off(self) -> None:
        self.sunday = self.add("j", "k")
        self.keeper.work_until("2026-03-30T09:00:00", step_seconds=6 * 3600)
        assert self.states(self.sunday) == ["queued"] * 2

    def meets_an_outage(self) -> None:
        """The provider is away all night: the breaker opens, nothing is given up, and all of it waits with a reason."""
        self.cut_off("2026-03-30")
        for kind in ("status", "create_refused"):
            self.keeper.fault(kind, status=503)
        figures = self.run("2026-03-30")
        self.keeper.simulator.faults.clear()
        assert (figures["review"], figures["dead"], sum(figures["waiting"].values())) == (0, 0, 2)
        self.keeper.work_until("2026-03-31T09:00:00", step_seconds=3600)

    def has_too_few_reviewers(self) -> None:
        """Ten minutes of review are two drafts of four minutes each. The others are left out, and say why."""
        self.keeper.set(night=_SETTINGS | {"reviewer_minutes": 10.0})
        self.full = self.sunday + self.add("l", "m")
        self.clear_the_desk()
        self.cut_off("2026-03-31")
        assert sorted(self.keeper.plan("2026-03-31")) == sorted(self.sunday)
        figures = self.run("2026-03-31")
        assert (figures["planned"], figures["review"]) == (2, 2)
        assert self.states(self.full) == ["review"] * 2 + ["queued"] * 2

    def comes_to_its_end(self) -> None:
        self.clear_the_desk()
        self.cut_off("2026-04-01")
        self.run("2026-04-01")
        assert set(self.keeper.states()) == {"review", "done"}
        steps = [(name, state) for name in _NIGHTS for state in ("planned", "open", "closing", "closed")]
        assert self.keeper.steps() == steps
        for name, (_, start, stop) in _NIGHTS.items():
            night = self.keeper.night(name)
            assert (night["starts_at"], night["stops_at"]) == (utc(start), utc(stop))
            assert night["opened_at"] == utc(start)
        assert self.keeper.meter()["repeated"] == 0

    def add(self, *names: str) -> list[str]:
        return self.keeper.add(*names)

    def states(self, ids: list[str]) -> list[str]:
        return self.keeper.states(ids)

    def cut_off(self, name: str) -> None:
        self.keeper.look(_NIGHTS[name][0])
        assert self.keeper.nights()[name] == "planned"

    def run(self, name: str) -> dict[str, Json]:
        """From the start to half a minute after the hard stop: nothing is at work then."""
        _, start, stop = _NIGHTS[name]
        self.keeper.look(start)
        self.keeper.work_until(stop, step_seconds=900)
        self.keeper.pass_time(29)
        self.keeper.look()
        assert "working" not in self.keeper.states()
        assert self.keeper.nights()[name] == "closed"
        figures: dict[str, Json] = self.keeper.night(name)["figures"]
        return figures

    def clear_the_desk(self) -> None:
        """Somebody has decided on all that was there, so that the reviewers have their minutes again."""
        gone = {"state": "done", "ended_at": self.keeper.clock.now()}
        with self.keeper.house.db.write() as conn:
            conn.execute(tasks.update().where(tasks.c.state == "review"), gone)

    def die_with(self, task_id: str) -> None:
        """Another worker begins the leg and is never heard of again."""
        keeper, leg = self.keeper, dict(self.keeper.due())[task_id]
        other = acquire(keeper.house.db, 15)
        with keeper.house.db.write() as conn:
            begun = begin_leg(keeper.house, conn, task_id, leg, slot=other, switchboard=keeper.switchboard, alone=False)
        assert isinstance(begun, Begun)
        keeper.forget(task_id, leg)
        with keeper.house.db.read() as conn:
            assert conn.execute(sa.select(tasks.c.slot).where(tasks.c.id == task_id)).scalar() == other.executor_id
