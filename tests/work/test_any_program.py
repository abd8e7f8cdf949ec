"""Any sequence of calls and failures leaves a legal house: a task per key, an event per change, an unbroken chain."""

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nightdesk.clock import SetClock
from nightdesk.errors import Conflict
from nightdesk.guard.switches import clear_switch, set_switch
from nightdesk.house import open_house
from nightdesk.store import events, runs, tasks
from nightdesk.watch import audit
from nightdesk.work import AskPerson, Desk, RetryLater, dead
from nightdesk.work.begin import begin_leg
from nightdesk.work.states import LEADS_TO
from nightdesk.work.tasks import answer, cancel
from tests.conftest import make_house_folder
from tests.support.hand import START, Hand

# The full figure of 500 programs takes minutes; `make test` runs a part of it, another part each time.
PROGRAMS = int(os.environ.get("PROGRAMS", "60"))

behaviours = st.lists(st.sampled_from(["ok", "ok", "retry", "bug", "person", "ask", "sleep"]), min_size=1, max_size=4)
names = st.sampled_from("abcdef")


async def misbehave(order: Any, desk: Desk) -> int:
    """Does as the order says, step by step; what fails does so on its first two attempts."""
    for number, behaviour in enumerate(order.behaviours):
        if behaviour == "ask":
            await desk.ask("go on?", ["yes", "no"])
        elif behaviour == "sleep":
            await desk.sleep_until(START)
        else:
            await desk.step(f"{number}", act, behaviour)
    return len(order.behaviours)


def act(behaviour: str) -> str:
    if behaviour == "person":
        raise AskPerson("a person is wanted")
    if behaviour in ("retry", "bug") and random.random() < 0.7:
        raise (RetryLater if behaviour == "retry" else RuntimeError)("not now")
    return behaviour


class AnyProgram(RuleBasedStateMachine):
    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="program-"))
        url = f"sqlite:///{shutil.copy(self.template, self.folder / 'nightdesk.db')}"
        self.clock = SetClock(START)
        house = open_house(make_house_folder(self.folder / "house", url), clock=self.clock)
        self.hand = Hand(house, self.clock)
        self.hand.have(misbehave, input={"name": "string", "behaviours": ["string"]}, limits={"concurrency": 2})
        self.accepted: dict[str, Any] = {}
        self.begun = 0

    def teardown(self) -> None:
        head = self.folder / "head"
        while audit.seal(self.hand.house.db, self.clock, head):
            pass
        verdict = audit.verify(self.hand.house.db, head)
        self.hand.house.close()
        shutil.rmtree(self.folder)
        assert verdict.ok, verdict

    @rule(name=names, behaviours=behaviours, priority=st.integers(0, 3))
    def submit(self, name: str, behaviours: list[str], priority: int) -> None:
        order = {"name": name, "behaviours": behaviours}
        try:
            receipt = self.hand.submit("job", order, priority=priority)
        except Conflict:
            assert self.accepted[name] != order
        else:
            assert self.accepted.setdefault(name, order) == order
            assert receipt.state == self.hand.task(receipt.id)["state"]

    @rule(count=st.integers(1, 4))
    def work(self, count: int) -> None:
        for _ in range(count):
            self.hand.step()

    @precondition(lambda self: self.hand.due())
    @rule()
    def a_worker_vanishes_in_a_leg(self) -> None:
        """It began the leg and was never heard of again; the queue calls the leg anew."""
        hand, (task, leg) = self.hand, self.hand.due()[0]
        with hand.house.db.write() as conn:
            begin_leg(hand.house, conn, task, leg, slot=hand.slot, switchboard=hand.switchboard, alone=True)

    @rule(seconds=st.sampled_from([1, 60, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.hand.sweep()

    @rule(mode=st.sampled_from(["pause", "stop", "off"]))
    def switch(self, mode: Any) -> None:
        if mode == "off":
            clear_switch(self.hand.house.db, self.clock, why="enough", actor="test")
        else:
            set_switch(self.hand.house.db, self.clock, mode=mode, why="odd", actor="test")
        self.hand.switchboard.refresh()

    @precondition(lambda self: self.accepted)
    @rule(data=st.data(), act=st.sampled_from(["cancel", "answer", "replay", "drop"]))
    def a_person_acts(self, data: st.DataObject, act: str) -> None:
        with self.hand.house.db.read() as conn:
            ids = list(conn.execute(sa.select(tasks.c.id).order_by(tasks.c.key)).scalars())
        task, house = data.draw(st.sampled_from(ids)), self.hand.house
        try:
            match act:
                case "cancel":
                    cancel(house, task, actor="test")
                case "answer":
                    answer(house, task, "yes", actor="test")
                case "replay":
                    dead.replay(house, [task], actor="test")
                case "drop":
                    dead.drop(house, [task], actor="test", why="seen")
        except Conflict:
            pass  # refused: it was not in a state for that

    @invariant()
    def accepted_is_what_there_is(self) -> None:
        with self.hand.house.db.read() as conn:
            keys = list(conn.execute(sa.select(tasks.c.key)).scalars())
        assert sorted(keys) == sorted(self.accepted)

    @invariant()
    def every_change_has_one_event_and_was_allowed(self) -> None:
        with self.hand.house.db.read() as conn:
            states = dict(conn.execute(sa.select(tasks.c.id, tasks.c.state)).all())
            query = sa.select(events).where(events.c.kind == "state").order_by(events.c.id)
            rows = conn.execute(query).mappings().all()
        last: dict[str, str] = {}
        for row in rows:
            assert row["prior_state"] == last.get(row["task_id"])
            assert row["prior_state"] is None or row["state"] in LEADS_TO[row["prior_state"]]
            last[row["task_id"]] = row["state"]
        assert last == states

    @invariant()
    def no_more_than_the_limit_work_at_once(self) -> None:
        with self.hand.house.db.read() as conn:
            working = conn.execute(sa.select(sa.func.count()).where(tasks.c.state == "working")).scalar_one()
        assert working <= 2

    @invariant()
    def completed_steps_stay_completed(self) -> None:
        with self.hand.house.db.read() as conn:
            done = conn.execute(sa.select(sa.func.count()).where(runs.c.status == "done")).scalar_one()
        assert done >= self.begun
        self.begun = done

    @invariant()
    def whoever_is_not_at_an_end_can_still_get_there(self) -> None:
        """A task that is queued has a leg in the queue; one that waits has one, or something that will wake it."""
        with self.hand.house.db.read() as conn:
            rows = conn.execute(sa.select(tasks).where(tasks.c.state.in_(["queued", "working"]))).mappings().all()
        listed = self.hand.house.dispatcher.client.list_workflows(status=["ENQUEUED", "DELAYED"])
        queued = {workflow.workflow_id for workflow in listed}
        assert all(f"{row['id']}:{row['leg']}" in queued for row in rows)


@pytest.mark.timeout(900)
def test_any_program_leaves_a_legal_house(sqlite_template: Path) -> None:
    AnyProgram.template = sqlite_template
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        AnyProgram,
        settings=settings(
            max_examples=PROGRAMS, stateful_step_count=50, deadline=None, suppress_health_check=slow, print_blob=True
        ),
    )
