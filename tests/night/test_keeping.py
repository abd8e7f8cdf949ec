"""A night from the cut-off to its figures: each step once, whoever looks; the plan's order; late work; own hours."""

from datetime import timedelta
from typing import Any

import pytest

from nightdesk.canonical import Json
from nightdesk.errors import Invalid, NotFound
from nightdesk.night import opening
from nightdesk.night.by_hand import begin_now
from nightdesk.work import Desk
from nightdesk.work.tasks import answer, cancel
from tests.night.keeper import Keeper

_NIGHT = "2026-11-30"


def test_a_night_from_its_cutoff_to_its_figures(keeper: Keeper) -> None:
    early = keeper.add("a", "b", "c")
    keeper.look("2026-11-30T16:59:59")
    assert keeper.nights() == {}
    keeper.look("2026-11-30T17:00:00")
    keeper.clock.advance(1)
    late = keeper.add("d")
    keeper.look()
    assert keeper.nights() == {_NIGHT: "planned"}
    assert keeper.states(early + late) == ["planned"] * 3 + ["queued"]
    keeper.look("2026-12-01T00:59:59")
    assert (keeper.nights(), keeper.due()) == ({_NIGHT: "planned"}, [])
    keeper.look("2026-12-01T01:00:00")
    assert keeper.nights() == {_NIGHT: "open"}
    assert [task_id for task_id, _ in keeper.due()] == keeper.plan(_NIGHT)
    assert set(keeper.plan(_NIGHT)) == set(early)
    keeper.run_all()
    keeper.look("2026-12-01T04:59:59")
    assert keeper.states(early + late) == ["done"] * 3 + ["queued"]
    assert keeper.nights() == {_NIGHT: "open"}
    keeper.look("2026-12-01T05:00:00")
    assert keeper.nights() == {_NIGHT: "closed"}
    assert keeper.steps() == [(_NIGHT, state) for state in ("planned", "open", "closing", "closed")]
    assert _figures(keeper, "planned", "new", "done", "review", "waiting", "completion_rate", "ended_at") == {
        "planned": 3, "new": 4, "done": 3, "review": 0, "waiting": {}, "completion_rate": 1.0,
        "ended_at": "2026-12-01T05:00:00Z",
    }  # fmt: skip


def test_no_leg_of_the_night_begins_outside_of_it(keeper: Keeper) -> None:
    async def ask(_order: Any, desk: Desk) -> Json:
        return await desk.ask("Go on?", ["yes"])

    keeper.have(ask)
    [task_id] = keeper.add("a")
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T01:00:00")
    keeper.run_all()
    keeper.look("2026-12-01T05:00:00")
    assert (keeper.nights(), keeper.state(task_id)) == ({_NIGHT: "closed"}, "waiting:person")
    keeper.clock.advance(3600)
    answer(keeper.house, task_id, "yes", actor="test")
    keeper.run_all()  # the answer has come, but the night is over
    assert (keeper.state(task_id), keeper.why(task_id)) == ("waiting:time", "the night is over; it waits for the next")
    keeper.look("2026-12-01T17:00:00")
    assert keeper.plan("2026-12-01") == [task_id]
    keeper.run_all()
    assert keeper.state(task_id) == "waiting:time"
    keeper.look("2026-12-02T01:00:00")
    keeper.run_all()
    assert (keeper.state(task_id), keeper.task(task_id)["result"]) == ("done", "yes")


@pytest.mark.parametrize("priorities", [(2, 2, 2, 2, 2, 2, 2), (3, 1, 2, 0, 2, 1, 3)])
def test_work_begins_in_the_order_of_the_plan_as_fast_as_it_is_begun(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, priorities: tuple[int, ...]
) -> None:
    monkeypatch.setattr(opening, "_LINE", 3)
    monkeypatch.setattr(opening, "_CHUNK", 2)
    for number, priority in enumerate(priorities):
        keeper.add(f"job-{number}", priority=priority)
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T01:00:00")
    begun = []
    while due := keeper.due():
        assert len(due) <= 3
        task_id = keeper.step()
        assert task_id is not None
        begun.append(task_id)
        keeper.look()
    assert begun == keeper.plan(_NIGHT)


def test_urgent_work_joins_late_and_goes_first(keeper: Keeper) -> None:
    planned = keeper.add("a", "b")
    keeper.look("2026-11-30T17:00:00")
    keeper.clock.advance(60)
    urgent, ordinary = keeper.add("p0", priority="P0"), keeper.add("p2")
    keeper.look()
    assert keeper.states(urgent + ordinary) == ["planned", "queued"]
    keeper.look("2026-12-01T01:00:00")
    more = keeper.add("p1", priority="P1")
    keeper.look()
    assert [task_id for task_id, _ in keeper.due()] == [*urgent, *more, *planned]
    assert keeper.plan(_NIGHT) == [*more, *urgent, *planned]
    keeper.run_all()
    keeper.look("2026-12-01T05:00:00")
    assert keeper.states(urgent + more + planned + ordinary) == ["done"] * 4 + ["queued"]
    assert _figures(keeper, "planned", "done") == {"planned": 4, "done": 4}


def test_urgent_work_waits_for_a_cutoff_while_there_is_no_night(quick_keeper: Keeper) -> None:
    [task_id] = quick_keeper.add("p0", priority="P0")
    quick_keeper.look()
    assert (quick_keeper.nights(), quick_keeper.state(task_id)) == ({}, "queued")


def test_urgent_work_that_the_plan_left_out_does_not_join_late(quick_keeper: Keeper) -> None:
    quick_keeper.have(risk="customer", review={"minutes": 4})
    quick_keeper.set(night={"reviewer_minutes": 0.0})
    ids = quick_keeper.add("a", priority="P0")
    for at in ("2026-11-30T17:00:00", "2026-11-30T17:00:01", "2026-12-01T01:00:00"):
        quick_keeper.look(at)
    assert (quick_keeper.nights(), quick_keeper.states(ids)) == ({_NIGHT: "open"}, ["queued"])


def test_work_after_another_playbook_waits_until_that_is_through(keeper: Keeper) -> None:
    async def ask_the_second(order: Any, desk: Desk) -> Json:
        return await desk.ask("Go on?", ["yes"]) if order.name == "second" else None

    keeper.have(ask_the_second)
    keeper.have_also("report", when={"after": "job"})
    keeper.have_also("archive", when={"after": "report"})
    jobs = keeper.add("first", "second")
    [report], [archive] = keeper.add("r", playbook="report"), keeper.add("a", playbook="archive")
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T01:00:00")
    assert {task_id for task_id, _ in keeper.due()} == set(jobs)
    urgent = keeper.add("p0", playbook="report", priority="P0")
    keeper.step()
    keeper.look()
    assert keeper.states([report, archive, *urgent]) == ["planned"] * 3
    assert len(keeper.due()) == 1
    keeper.step()
    keeper.look()
    # One of the jobs waits for a person, who will not come tonight: that holds nothing up.
    assert sorted(keeper.states(jobs)) == ["done", "waiting:person"]
    assert keeper.step() == urgent[0]
    assert keeper.step() == report
    keeper.look()
    assert keeper.step() == archive


def test_a_playbook_with_hours_of_its_own_has_nights_of_its_own(keeper: Keeper) -> None:
    hours = {"zone": "America/New_York", "cutoff": "18:00", "start": "22:00", "stop": "23:30", "summary": "23:30"}
    keeper.have_also("overseas", window=hours)
    [mine], [theirs] = keeper.add("a"), keeper.add("b", playbook="overseas")
    keeper.look("2026-11-30T17:00:00")
    assert (keeper.nights(), keeper.states([mine, theirs])) == ({_NIGHT: "planned"}, ["planned", "queued"])
    keeper.look("2026-11-30T23:00:00")
    own = "2026-11-30.overseas"
    assert keeper.nights() == {_NIGHT: "planned", own: "planned"}
    keeper.look("2026-12-01T01:00:00")
    assert [task_id for task_id, _ in keeper.due()] == [mine]
    keeper.run_all()
    keeper.look("2026-12-01T03:00:00")
    assert [task_id for task_id, _ in keeper.due()] == [theirs]
    keeper.look("2026-12-01T04:30:00")
    assert keeper.nights() == {_NIGHT: "open", own: "closed"}
    keeper.run_all()  # its leg still lies in the queue
    assert keeper.state(theirs) == "queued"
    keeper.look("2026-12-01T05:00:00")
    assert keeper.nights() == {_NIGHT: "closed", own: "closed"}
    assert _figures(keeper, "done", "waiting", night=own) == {"done": 0, "waiting": {"not started": 1}}


def test_urgent_work_joins_the_night_of_its_own_playbook(quick_keeper: Keeper) -> None:
    keeper = quick_keeper
    keeper.have_also("overseas", window={"cutoff": "18:00"})
    keeper.look("2026-11-30T18:00:00")
    keeper.clock.advance(60)
    [mine], [theirs] = keeper.add("a", priority=0), keeper.add("b", playbook="overseas", priority=0)
    keeper.look()
    assert (keeper.plan(_NIGHT), keeper.plan("2026-11-30.overseas")) == ([mine], [theirs])


def test_a_night_that_nobody_cut_off_is_planned_late(quick_keeper: Keeper) -> None:
    early = quick_keeper.add("a")
    quick_keeper.clock.advance(6 * 3600)
    late = quick_keeper.add("b")
    quick_keeper.look("2026-12-01T03:00:00")
    assert quick_keeper.nights() == {_NIGHT: "open"}
    assert quick_keeper.plan(_NIGHT) == early
    assert quick_keeper.states(late) == ["queued"]


def test_a_night_that_nobody_opened_is_closed_with_its_reasons(keeper: Keeper) -> None:
    ids = keeper.add("a", "b")
    keeper.look("2026-11-30T17:00:00")
    keeper.look("2026-12-01T09:00:00")
    assert keeper.steps() == [(_NIGHT, state) for state in ("planned", "closing", "closed")]
    assert (keeper.night(_NIGHT)["opened_at"], keeper.states(ids)) == (None, ["queued"] * 2)
    assert keeper.why(ids[0]) == "the night was over before its turn came; it waits for the next"
    assert _figures(keeper, "done", "waiting", "started_at") == {
        "done": 0, "waiting": {"not started": 2}, "started_at": None
    }  # fmt: skip
    keeper.look("2026-12-01T17:00:00")
    assert set(keeper.plan("2026-12-01")) == set(ids)


def test_there_is_no_night_on_a_holiday(quick_keeper: Keeper) -> None:
    quick_keeper.set(night={"holidays": ["2026-11-30"]})
    ids = quick_keeper.add("a")
    for at in ("2026-11-30T17:00:00", "2026-12-01T01:00:00", "2026-12-01T05:00:00"):
        quick_keeper.look(at)
    assert (quick_keeper.nights(), quick_keeper.states(ids)) == ({}, ["queued"])
    quick_keeper.look("2026-12-01T17:00:00")
    assert quick_keeper.plan("2026-12-01") == ids


def test_what_was_cancelled_or_dropped_meanwhile_is_not_begun(quick_keeper: Keeper) -> None:
    first, second = quick_keeper.add("a", "b")
    quick_keeper.look("2026-11-30T17:00:00")
    cancel(quick_keeper.house, first, actor="test")
    quick_keeper.look("2026-12-01T01:00:00")
    assert [task_id for task_id, _ in quick_keeper.due()] == [second]


def test_movement_is_noted(quick_keeper: Keeper) -> None:
    quick_keeper.add("a", "b")
    quick_keeper.look("2026-11-30T17:00:00")
    quick_keeper.look("2026-12-01T01:00:00")
    seen = [quick_keeper.night(_NIGHT)["moved_at"]]
    for _ in range(3):  # a leg after 30 s, another after 60, and then nothing
        quick_keeper.clock.advance(30)
        quick_keeper.step()
        quick_keeper.look()
        seen.append(quick_keeper.night(_NIGHT)["moved_at"])
    assert [moment - seen[0] for moment in seen] == [timedelta(seconds=seconds) for seconds in (0, 30, 60, 60)]


def test_a_night_by_hand_begins_at_once_and_ends_when_nothing_is_left(keeper: Keeper) -> None:
    async def ask_the_last(order: Any, desk: Desk) -> Json:
        return await desk.ask("Go on?", ["yes"]) if order.name == "c" else None

    keeper.have(ask_the_last)
    keeper.have_also("report", when={"after": "job"})
    ids = keeper.add("a", "b", "c") + keeper.add("r", playbook="report")
    name = begin_now(keeper.house, None, {}, actor="test")
    assert (name, keeper.nights()) == ("2026-11-30.1", {"2026-11-30.1": "open"})
    assert keeper.night(name)["stops_at"].isoformat() == "2026-12-01T05:00:00+00:00"
    for _ in range(3):
        keeper.run_all()
        keeper.look()
    assert keeper.states(ids) == ["done", "done", "waiting:person", "done"]
    assert keeper.nights() == {name: "closed"}
    assert _figures(keeper, "done", "waiting", night=name) == {"done": 3, "waiting": {"person": 1}}
    # What it has left is for the next night, although its hard stop has not come.
    answer(keeper.house, ids[2], "yes", actor="test")
    keeper.run_all()
    assert keeper.state(ids[2]) == "waiting:time"
    assert begin_now(keeper.house, "13:00", {}, actor="test") == "2026-11-30.2"
    assert keeper.plan("2026-11-30.2") == [ids[2]]
    keeper.look("2026-11-30T13:00:00")
    assert keeper.nights()["2026-11-30.2"] == "closed"
    assert keeper.state(ids[2]) == "waiting:time"


@pytest.mark.parametrize(
    ("at", "until", "stop"),
    [
        pytest.param("2026-11-30T12:00:00", None, "2026-12-01T05:00", id="the next hard stop"),
        pytest.param("2026-11-30T20:00:00", None, "2026-12-01T05:00", id="that of the night that is cut off"),
        pytest.param("2026-11-30T20:00:00", "21:30", "2026-11-30T21:30", id="a time today"),
        pytest.param("2026-11-30T20:00:00", "06:00", "2026-12-01T06:00", id="a time tomorrow"),
    ],
)
def test_when_a_night_by_hand_stops(quick_keeper: Keeper, at: str, until: str | None, stop: str) -> None:
    quick_keeper.have_also("idle")
    quick_keeper.add("a")
    quick_keeper.look(at)
    name = begin_now(quick_keeper.house, until, {}, actor="test")
    assert f"{quick_keeper.night(name)['stops_at']:%Y-%m-%dT%H:%M}" == stop


def test_a_night_by_hand_is_refused_with_a_next_step(quick_keeper: Keeper) -> None:
    with pytest.raises(Invalid, match="time of day such as 06:00"):
        begin_now(quick_keeper.house, "6 o'clock", {}, actor="test")
    with pytest.raises(NotFound, match='did you mean "job"'):
        begin_now(quick_keeper.house, None, {"jobb": "why not"}, actor="test")
    quick_keeper.set(night={"days": []})
    with pytest.raises(Invalid, match="--until"):
        begin_now(quick_keeper.house, None, {}, actor="test")


def _figures(keeper: Keeper, *names: str, night: str = _NIGHT) -> dict[str, Json]:
    figures = keeper.night(night)["figures"]
    return {name: figures[name] for name in names}
