"""Work that makes work: fan-out and join, what comes `then`, missing input, and all of it within the night."""

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import GiveUp, Invalid
from nightdesk.intake import emit_in
from nightdesk.intake.gathering import dispatch_gathered
from nightdesk.intake.happening import tell_of
from nightdesk.store import events, tasks
from nightdesk.work import Desk
from nightdesk.work.tasks import cancel
from tests.night.keeper import Keeper, quick, utc

_NIGHT = "2026-11-30"


async def shout(order: Any, _desk: Desk) -> Json:
    return {"said": order.name.upper()}


async def refuse(_order: Any, _desk: Desk) -> Json:
    raise GiveUp("The source is gone.")


async def gather(_order: Any, desk: Desk) -> Json:
    """Three at once, then what all of them said."""
    ids = [await desk.emit("shout", {"name": name}) for name in ("a", "b", "c")]
    return [result.value["said"] for result in await desk.results(ids) if result]


def _children(keeper: Keeper, parent: str) -> list[Any]:
    query = sa.select(tasks).where(tasks.c.parent_id == parent).order_by(tasks.c.created_at, tasks.c.key)
    with keeper.house.db.read() as conn:
        return list(conn.execute(query).mappings())


def _run(keeper: Keeper, task_id: str) -> None:
    """Run this task's next leg, due or not."""
    keeper.run(task_id, _row(keeper, task_id)["leg"])


def _row(keeper: Keeper, task_id: str) -> Any:
    with keeper.house.db.read() as conn:
        return conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one()


def _open(keeper: Keeper) -> None:
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T01:00:00")


def test_what_nightly_work_emits_is_done_in_its_night(keeper: Keeper) -> None:
    keeper.have(gather)
    keeper.have_also("shout", shout, when="now")
    [parent] = keeper.add("p")
    _open(keeper)
    assert keeper.step() == parent
    night = keeper.night(_NIGHT)
    children = _children(keeper, parent)
    assert keeper.state(parent) == "waiting:tasks"
    assert {(child["state"], child["night"], child["until"]) for child in children} == {
        ("planned", _NIGHT, night["stops_at"])
    }
    assert len(keeper.due()) == 3
    keeper.step()
    keeper.step()
    assert keeper.state(parent) == "waiting:tasks"
    assert len(keeper.due()) == 1  # nobody looks for a parent whose tasks are not all there
    keeper.step()
    assert keeper.run_all() == 1
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", ["A", "B", "C"])
    keeper.look("2026-12-01T05:00:00")
    assert keeper.night(_NIGHT)["figures"]["done"] == 4


def test_a_repeat_emits_nothing_new(keeper: Keeper) -> None:
    """The leg breaks off after the child is there, and before that is in the journal."""
    keeper.have_also("shout", shout, when="now", priority="P3")
    seen: list[str] = []

    async def emits(order: Any, desk: Desk) -> Json:
        seen.append(await desk.emit("shout", {"name": order.name}, key="one"))
        seen.append(await desk.emit("shout", {"name": "other"}))
        if len(seen) == 2:
            raise ConnectionError("away")
        return None

    keeper.have(emits, when="now", priority="P1")
    [parent] = keeper.add("p")
    _run(keeper, parent)
    with keeper.house.db.write() as conn:  # as if it had died between the two writes
        conn.execute(sa.text("UPDATE runs SET status = 'running', output = NULL, ended_at = NULL"))
    keeper.settle()
    assert (keeper.state(parent), seen[:2]) == ("done", seen[2:])
    children = _children(keeper, parent)
    assert sorted(child["id"] for child in children) == sorted(seen[:2])
    assert {child["priority"] for child in children} == {1}  # what urgent work waits for is urgent


def test_a_join_that_is_over_while_its_leg_parks_is_not_missed(keeper: Keeper) -> None:
    """The child comes to its end between the look at it and the parking."""
    keeper.have_also("shout", shout, when="now")

    async def joins(_order: Any, desk: Desk) -> Json:
        ids = [await desk.emit("shout", {"name": "a"})]
        settled = desk._children.are_settled

        async def late(asked: Sequence[str]) -> bool:
            found = await settled(asked)
            with keeper.house.db.write() as conn:
                ended = {"state": "done", "ended_at": keeper.clock.now(), "rank": None, "result": {"said": "late"}}
                conn.execute(tasks.update().where(tasks.c.id == ids[0]), ended)
            return found

        desk._children.are_settled = late  # type: ignore[method-assign, assignment]
        return [result.value for result in await desk.results(ids) if result]

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    keeper.step()
    keeper.clock.advance(1)
    keeper.run_all()
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", [{"said": "late"}])


def test_what_ends_without_a_leg_wakes_its_parent_too(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.have_also("shout", shout, when="now")

    async def joins(_order: Any, desk: Desk) -> Json:
        results = await desk.results([await desk.emit("shout", {"name": "a"})], missing="without")
        return [result is None for result in results]

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    keeper.step()
    [child] = _children(keeper, parent)
    cancel(keeper.house, child["id"], actor="test", why="not wanted")
    keeper.sweep()
    keeper.run_all()
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", [True])


@pytest.mark.parametrize(
    ("missing", "state", "result"),
    [
        ("fail", "dead", None),
        ("without", "done", ["A", None]),
        ("cached", "done", ["A", "B as of last time"]),
    ],
)
def test_a_stage_that_is_down(quick_keeper: Keeper, missing: Any, state: str, result: Json) -> None:
    keeper = quick_keeper
    down: list[str] = []

    async def source(order: Any, _desk: Desk) -> Json:
        if order.name in down:
            raise GiveUp("The source is gone.")
        return {"said": order.name.upper() + (" as of last time" if order.name == "b" else "")}

    async def joins(_order: Any, desk: Desk) -> Json:
        ids = [await desk.emit("source", {"name": name}, key=name) for name in ("a", "b")]
        results = await desk.results(ids, missing=missing)
        cached = [found.cached for found in results if found]
        assert cached == [False] * len(cached) or (missing, cached) == ("cached", [False, True])
        return [found and found.value["said"] for found in results]

    keeper.have_also("source", source, when="now")
    keeper.have(joins, when="now")
    first = keeper.add("yesterday")
    keeper.run_all()
    assert keeper.states(first) == ["done"]
    down.append("b")
    keeper.clock.advance(86_400)
    [second] = keeper.add("today")
    keeper.run_all()
    assert (keeper.state(second), keeper.task(second)["result"]) == (state, result)
    if state == "dead":
        assert "1 of 2 results are missing" in str(keeper.task(second)["error"])


def test_a_join_with_a_timeout_goes_on_without_what_is_late(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.have_also("slow", quick, when={"debounce": "2h"})

    async def joins(_order: Any, desk: Desk) -> Json:
        return await desk.results([await desk.emit("slow", {"name": "a"})], timeout=600, missing="without")

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    _run(keeper, parent)
    assert keeper.state(parent) == "waiting:tasks"
    keeper.clock.advance(601)
    _run(keeper, parent)
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", [None])


def test_a_draft_on_the_desk_is_a_result(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.have_also("shout", shout, when="now", risk="customer")

    async def joins(_order: Any, desk: Desk) -> Json:
        [found] = await desk.results([await desk.emit("shout", {"name": "a"})])
        assert found is not None
        return [found.value, found.state, found.draft]

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    keeper.run_all()
    assert keeper.task(parent)["result"] == [{"said": "A"}, "review", True]


def test_a_task_waits_for_its_own_alone(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    [stranger] = keeper.add("s")

    async def joins(_order: Any, desk: Desk) -> Json:
        return len(await desk.results([stranger]))

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    keeper.run_all()
    assert keeper.state(parent) == "dead"
    assert "did not emit" in str(keeper.task(parent)["error"])


def test_a_pipeline_that_the_hard_stop_cuts_goes_on_in_the_next_night(keeper: Keeper) -> None:
    keeper.have(gather)
    keeper.have_also("shout", shout, when="now")
    [parent] = keeper.add("p")
    _open(keeper)
    keeper.step()
    keeper.step()
    keeper.look("2026-12-01T05:00:00")
    keeper.run_all()
    assert keeper.nights() == {_NIGHT: "closed"}
    assert keeper.state(parent) == "waiting:tasks"
    assert sorted(child["state"] for child in _children(keeper, parent)) == ["done", "queued", "queued"]
    keeper.look("2026-12-01T17:00:00")
    keeper.look("2026-12-02T01:00:00")
    keeper.run_all()
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", ["A", "B", "C"])
    assert {child["night"] for child in _children(keeper, parent)} == {_NIGHT, "2026-12-01"}
    assert _row(keeper, parent)["night"] == "2026-12-01"


def test_what_is_emitted_when_the_night_is_over_waits_for_the_next(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.have_also("shout", shout, when="now")

    keeper.have(gather)
    [parent] = keeper.add("p")
    _open(keeper)
    running = _row(keeper, parent)
    keeper.clock.move_to(utc("2026-12-01T05:00:00"))
    with keeper.house.db.write() as conn:
        emit_in(keeper.house, conn, running, "shout", {"name": "a"}, "x")
    keeper.forget(parent, running["leg"])
    [child] = _children(keeper, parent)
    assert (child["state"], child["until"], keeper.due()) == ("queued", utc("2026-12-01T05:00:00"), [])
    keeper.look()
    keeper.look("2026-12-01T17:00:00")
    assert child["id"] in keeper.plan("2026-12-01")


def test_then_hands_the_result_on_through_every_stage(keeper: Keeper) -> None:
    """Research, analysis, report; the report is for people, so it ends on the desk."""

    async def research(order: Any, _desk: Desk) -> Json:
        return {"topic": order.name, "facts": ["one", "two"]}

    async def analyse(order: Any, _desk: Desk) -> Json:
        return {"topic": order.topic, "count": len(order.facts)}

    async def report(order: Any, _desk: Desk) -> Json:
        return f"{order.count} facts on {order.topic}"

    found = {"topic": "string", "facts": ["string"]}
    keeper.have_also("report", report, input={"topic": "string", "count": "int"}, key="{topic}", risk="customer")
    keeper.have_also("analyse", analyse, input=found, key="{topic}", then=["report"])
    keeper.have(research, then=["analyse"])
    [first] = keeper.add("wool")
    _open(keeper)
    keeper.run_all()
    [second] = _children(keeper, first)
    [third] = _children(keeper, second["id"])
    assert (keeper.state(first), second["state"], third["state"]) == ("done", "done", "review")
    assert third["result"] == "2 facts on wool"
    assert third["night"] == _NIGHT


def test_a_result_that_does_not_fit_is_a_persons_matter(keeper: Keeper) -> None:
    keeper.have_also("count", quick, input={"number": "int"}, key="{number}", when="now")
    keeper.have_also("good", quick, input={"said": "string"}, key="{said}", when="now")
    keeper.have(shout, when="now", then=["good", "count"])
    [first] = keeper.add("a")
    keeper.run_all()
    assert keeper.state(first) == "review"
    assert keeper.task(first)["result"] == {"said": "A"}
    assert [child["playbook"] for child in _children(keeper, first)] == ["good"]
    with keeper.house.db.read() as conn:
        told = conn.execute(sa.select(events).where(events.c.kind == "emit")).mappings().one()
    assert (told["task_id"], told["detail"]) == (first, {"playbook": "count"})
    assert "could not be handed on to count" in told["cause"]


def test_tasks_gather_until_there_are_enough(keeper: Keeper) -> None:
    keeper.have(when={"depth": 3, "longest": "1h"})
    first = keeper.add("a", "b")
    dispatch_gathered(keeper.house)
    assert keeper.due() == []
    first += keeper.add("c")
    assert dispatch_gathered(keeper.house) == 3
    assert dispatch_gathered(keeper.house) == 0
    assert {task_id for task_id, _ in keeper.due()} == set(first)
    keeper.run_all()
    [late] = keeper.add("d")
    keeper.clock.advance(3599)
    assert dispatch_gathered(keeper.house) == 0
    keeper.clock.advance(1)
    assert dispatch_gathered(keeper.house) == 1
    keeper.run_all()
    assert keeper.states([*first, late]) == ["done"] * 4


def test_an_event_is_for_all_that_wait_for_it(keeper: Keeper) -> None:
    keeper.have(shout, when={"event": "price-changed"})
    keeper.have_also("other", when={"event": "price-changed"}, input={"name": "string"})
    first = tell_of(keeper.house, "price-changed", {"name": "a"}, actor="test")
    again = tell_of(keeper.house, "price-changed", {"name": "a"}, actor="test")
    assert [receipt.id for receipt in first] == [receipt.id for receipt in again]
    keeper.run_all()
    assert [keeper.task(receipt.id)["playbook"] for receipt in first] == ["job", "other"]
    assert keeper.states([receipt.id for receipt in first]) == ["done", "done"]
    with pytest.raises(Exception, match='did you mean "price-changed"'):
        tell_of(keeper.house, "price-change", {"name": "a"}, actor="test")
    with pytest.raises(Invalid):
        tell_of(keeper.house, "price-changed", {"size": 1}, actor="test")


def test_children_end_with_the_task_that_they_are_for(quick_keeper: Keeper) -> None:
    """Two joins in one task at once, of which the second is there first."""
    keeper = quick_keeper
    keeper.have_also("shout", shout, when="now")
    keeper.have_also("slow", shout, when={"debounce": "1h"})

    async def joins(_order: Any, desk: Desk) -> Json:
        slow = await desk.emit("slow", {"name": "s"})
        fast = await desk.emit("shout", {"name": "f"})
        early = await desk.results([fast])
        late = await desk.results([slow])
        return [found.value["said"] for found in (*early, *late) if found]

    keeper.have(joins, when="now")
    [parent] = keeper.add("p")
    _run(keeper, parent)
    children = {child["playbook"]: child for child in _children(keeper, parent)}
    _run(keeper, children["shout"]["id"])
    assert parent in [task_id for task_id, _ in keeper.due()]
    _run(keeper, parent)
    assert keeper.state(parent) == "waiting:tasks"
    _run(keeper, children["slow"]["id"])
    _run(keeper, parent)
    assert (keeper.state(parent), keeper.task(parent)["result"]) == ("done", ["F", "S"])
