"""The life of a task, leg by leg, on both databases."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from nightdesk.errors import Conflict, Invalid, NotFound
from nightdesk.guard.switches import clear_switch, set_switch
from nightdesk.store import events, notices, runs
from nightdesk.work import AskPerson, Desk, GiveUp, RetryLater, current_step, dead, sweeper
from nightdesk.work.insight import history
from nightdesk.work.tasks import answer, cancel
from tests.support.hand import START, Body, Hand


class Order(BaseModel):
    name: str


def moves(hand: Hand, task_id: str) -> list[tuple[str | None, str]]:
    return [(row["prior_state"], row["state"]) for row in history(hand.house, task_id) if row["kind"] == "state"]


def test_a_task_runs_through_its_steps_to_done(hand: Hand) -> None:
    receipt = hand.submit("drill", {"name": "alpha"})
    assert (receipt.created, hand.state(receipt.id)) == (True, "queued")
    hand.run_all()
    task = hand.task(receipt.id)
    assert (task["state"], task["result"], task["ended_at"]) == ("done", {"steps": 3}, "2026-01-31T22:00:00Z")
    assert [(step["step"], step["status"], step["attempt"]) for step in task["steps"]] == [
        ("step-1", "done", 1),
        ("step-2", "done", 1),
        ("step-3", "done", 1),
    ]
    assert moves(hand, receipt.id) == [(None, "queued"), ("queued", "working"), ("working", "done")]


def test_the_same_submission_is_the_same_task_and_another_input_is_refused(hand: Hand) -> None:
    first = hand.submit("drill", {"name": "alpha"})
    again = hand.submit("drill", {"name": "alpha", "steps": 3})
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(Conflict) as refused:
        hand.submit("drill", {"name": "alpha", "steps": 4})
    assert refused.value.differs == ("input.steps",)
    assert hand.run_all() == 1
    assert hand.submit("drill", {"name": "alpha"}).state == "done"
    assert hand.run_all() == 0


def test_a_refused_submission_names_every_fault_and_stores_nothing(hand: Hand) -> None:
    with pytest.raises(Invalid) as refused:
        hand.submit("drill", {"nam": "alpha", "steps": "3"}, priority="P9", callback_url="ftp://x", tenant="a\0b")
    assert {path for path, _ in refused.value.faults} == {
        "input.nam", "input.name", "input.steps", "priority", "callback_url", "tenant",
    }  # fmt: skip
    with pytest.raises(Invalid, match="expires_at"):
        hand.submit("drill", {"name": "alpha"}, expires_at=START - timedelta(days=1))
    with hand.house.db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(events)).scalar_one() == 0


def test_a_completed_step_is_not_run_again(hand: Hand) -> None:
    ran: list[tuple[str, int]] = []

    def step() -> int:
        info = current_step()
        ran.append((info.name, info.attempt))
        if ran == [("one", 1), ("two", 1)]:
            raise RetryLater("not now")
        return len(ran)

    async def body(order: Any, desk: Desk) -> list[int]:
        return [await desk.step("one", step), await desk.step("two", step)]

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.settle()
    assert ran == [("one", 1), ("two", 1), ("two", 2)]
    assert hand.task(task)["result"] == [1, 3]


def test_a_transient_failure_is_retried_three_times_with_growing_jittered_delays(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a", "fail": "transient", "fail_at": 2, "fail_times": 9}).id
    for longest in (1, 4, 16):
        hand.run_all()
        shown = hand.task(task)
        assert (shown["state"], shown["waiting_for"]) == ("waiting", "retry")
        with hand.house.db.read() as conn:
            assert conn.execute(sa.select(runs.c.status).where(runs.c.step == "step-2")).scalar_one() == "failed"
        assert hand.step() is None  # nothing runs before its time
        hand.clock.advance(longest)
    hand.run_all()
    shown = hand.task(task)
    assert (shown["state"], shown["error"]["class"], shown["error"]["type"]) == ("dead", "transient", "RetryLater")
    assert [step["attempt"] for step in shown["steps"]] == [1, 4]


def test_retries_succeed_and_leave_no_error(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a", "fail": "bug", "fail_at": 2, "fail_times": 3}).id
    hand.settle()
    shown = hand.task(task)
    assert (shown["state"], shown["error"], [step["attempt"] for step in shown["steps"]]) == ("done", None, [1, 4, 1])


def test_a_dead_letter_tells_all_and_goes_on_where_it_stopped(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a", "fail": "bug", "fail_at": 3, "fail_times": 4}).id
    hand.settle()
    letter = dead.show_dead(hand.house, task)
    assert letter["input"]["name"] == "a"
    assert "RuntimeError" in letter["error"]["traceback"]
    assert sum(row["state"] == "waiting" for row in letter["history"]) == 3
    assert [found["id"] for found in dead.list_dead(hand.house, error="bug")] == [task]
    assert dead.matching(hand.house, playbook="drill") == [task]
    with pytest.raises(Invalid, match="empty"):
        dead.matching(hand.house)
    assert dead.replay(hand.house, [task], actor="me") == 1
    hand.run_all()
    assert [step["attempt"] for step in hand.task(task)["steps"]] == [1, 1, 5]
    assert hand.state(task) == "done"
    with pytest.raises(Conflict):
        dead.replay(hand.house, [task], actor="me")


def test_a_dropped_dead_letter_is_off_the_list_but_not_forgotten(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> None:
        raise GiveUp("no such thing")

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert hand.state(task) == "dead"
    dead.drop(hand.house, [task], actor="me", why="seen")
    assert dead.list_dead(hand.house) == []
    assert moves(hand, task)[-1] == ("dead", "cancelled")


def test_what_needs_a_person_goes_to_review_without_a_retry(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a", "fail": "person", "fail_at": 2}).id
    hand.run_all()
    shown = hand.task(task)
    assert (shown["state"], shown["error"]["class"]) == ("review", "person")
    assert hand.run_all() == 0


def test_a_playbook_that_customers_see_ends_in_review(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> dict[str, str]:
        return {"text": "hello"}

    hand.have(body, risk="customer", output={"text": "string"})
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["result"]) == ("review", {"text": "hello"})


def test_an_output_that_breaks_its_schema_is_for_a_person(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> dict[str, int]:
        return {"txt": 1}

    hand.have(body, output={"text": "string"})
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert hand.state(task) == "review"
    assert "txt" in hand.task(task)["error"]["message"]


def test_at_the_time_limit_the_work_so_far_is_kept(hand: Hand) -> None:
    async def hang() -> None:
        await asyncio.sleep(3600)

    async def body(order: Any, desk: Desk) -> None:
        await desk.step("quick", lambda: "kept")
        await desk.step("hangs", hang)

    hand.have(body, limits={"time": 0.2})
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    shown = hand.task(task)
    assert (shown["state"], shown["error"]["class"]) == ("dead", "overrun")
    assert [(step["step"], step["status"]) for step in shown["steps"]] == [("quick", "done"), ("hangs", "running")]


def test_what_is_too_old_expires_and_says_so(hand: Hand) -> None:
    late = hand.submit("drill", {"name": "late"}, expires_at=START + timedelta(minutes=5)).id
    swept = hand.submit("drill", {"name": "swept"}, expires_at=START + timedelta(minutes=5)).id
    hand.clock.advance(600)
    hand.run(late, 1)
    hand.sweep()
    assert (hand.state(late), hand.state(swept)) == ("expired", "expired")
    assert "too old" in history(hand.house, swept)[-1]["cause"]


def test_work_that_is_not_due_is_not_begun(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a"}, not_before=START + timedelta(hours=3)).id
    assert hand.run_all() == 0
    hand.clock.advance(3 * 3600)
    assert (hand.run_all(), hand.state(task)) == (1, "done")


def test_a_cancelled_task_is_not_begun_and_a_second_cancel_does_nothing(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a"}).id
    assert cancel(hand.house, task, actor="me", why="changed my mind")["state"] == "cancelled"
    assert cancel(hand.house, task, actor="me")["state"] == "cancelled"
    hand.run_all()
    assert hand.task(task)["steps"] == []
    with pytest.raises(NotFound):
        cancel(hand.house, "no such", actor="me")
    with pytest.raises(NotFound):
        cancel(hand.house, task, actor="me", tenant="other")


def test_a_task_cancelled_while_it_runs_finds_its_write_refused(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> None:
        await desk.step("one", lambda: cancel(hand.house, desk.task_id, actor="me") and None)
        raise AssertionError("never reached")

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["steps"][0]["status"]) == ("cancelled", "running")


def ask_body(**terms: Any) -> Body:
    async def body(order: Any, desk: Desk) -> str:
        await desk.step("before", lambda: None)
        return await desk.ask("Raise the cap?", ["yes", "no"], **terms)

    return body


def test_a_question_parks_the_task_until_a_person_answers(hand: Hand) -> None:
    hand.have(ask_body())
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert hand.state(task) == "waiting:person"
    asked = {"step": "ask", "question": "Raise the cap?", "choices": ["yes", "no"], "until": None, "default": None}
    assert hand.task(task)["questions"] == [asked]
    with pytest.raises(Invalid, match="yes, no"):
        answer(hand.house, task, "maybe", actor="me")
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert (hand.state(task), hand.task(task)["result"]) == ("done", "yes")
    with pytest.raises(Conflict):
        answer(hand.house, task, "yes", actor="me")


def test_an_unanswered_question_comes_back_with_its_default(hand: Hand) -> None:
    hand.have(ask_body(timeout=timedelta(hours=2), default="no"))
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["wake_at"]) == ("waiting:person", "2026-02-01T00:00:00Z")
    hand.clock.advance(2 * 3600)
    hand.run_all()
    assert hand.task(task)["result"] == "no"


def test_an_answer_before_the_timeout_wins(hand: Hand) -> None:
    hand.have(ask_body(timeout=3600, default="no"))
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    answer(hand.house, task, "yes", actor="me")
    hand.settle(rounds=2)
    assert hand.task(task)["result"] == "yes"


def test_two_questions_at_once_need_two_answers(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> list[str]:
        asked = (desk.ask(f"{name}?", ["yes", "no"], name=name) for name in ("left", "right"))
        return list(await asyncio.gather(*asked))

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    with pytest.raises(Invalid, match="left, right"):
        answer(hand.house, task, "yes", actor="me")
    answer(hand.house, task, "no", step="right", actor="me")
    hand.run_all()
    assert hand.state(task) == "waiting:person"
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert hand.task(task)["result"] == ["yes", "no"]


def test_a_sleeping_task_is_a_row_until_its_moment(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> str:
        await desk.sleep_until(hand.clock.now() + timedelta(hours=1))
        return "awake"

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["wake_at"]) == ("waiting:time", "2026-01-31T23:00:00Z")
    hand.clock.advance(3600)
    hand.run_all()
    assert hand.task(task)["result"] == "awake"


def test_steps_run_concurrently_and_each_once(hand: Hand) -> None:
    together = asyncio.Event
    ran: list[str] = []

    async def body(order: Any, desk: Desk) -> list[str]:
        both_here = together()

        async def meet(name: str) -> str:
            ran.append(name)
            if len(ran) == 2:
                both_here.set()
            await asyncio.wait_for(both_here.wait(), 5)
            return name

        met = await asyncio.gather(desk.step("meet", meet, "a"), desk.step("meet", meet, "b"))
        await desk.ask("go on?", ["yes"])
        return list(met)

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert (hand.task(task)["result"], ran) == (["a", "b"], ["a", "b"])
    assert [(step["step"], step["occurrence"]) for step in hand.task(task)["steps"]][:2] == [("meet", 1), ("meet", 2)]
    assert not [row for row in history(hand.house, task) if row["kind"] == "divergence"]


def test_a_step_gives_back_the_type_it_declares_on_first_run_and_replay(hand: Hand) -> None:
    seen: list[type] = []

    def make() -> Order:
        return Order(name="x")

    async def body(order: Any, desk: Desk) -> None:
        seen.append(type(await desk.step("make", make)))
        await desk.ask("go on?", ["yes"])

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert seen == [Order, Order]


def test_keys_for_outside_writes_are_stable_within_a_version(hand: Hand) -> None:
    keys: list[str] = []

    async def body(order: Any, desk: Desk) -> None:
        keys.append(desk.key("post", "1"))
        await desk.ask("go on?", ["yes"])
        keys.append(desk.key("post", "2"))

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert keys[0] == keys[1] != keys[2]


def test_a_pause_parks_new_legs_and_a_resume_lets_them_go(hand: Hand) -> None:
    set_switch(hand.house.db, hand.clock, mode="pause", playbook="drill", why="odd results", actor="me")
    hand.switchboard.refresh()
    task = hand.submit("drill", {"name": "a"}).id
    hand.run_all()
    assert hand.state(task) == "waiting:switch"
    assert history(hand.house, task)[-1]["cause"] == "switched off: odd results"
    assert clear_switch(hand.house.db, hand.clock, playbook="drill", why="fine", actor="me")
    hand.settle(rounds=2)
    assert hand.state(task) == "done"


def test_a_stop_also_ends_running_legs_at_their_next_step(hand: Hand) -> None:
    def stop() -> str:
        set_switch(hand.house.db, hand.clock, mode="stop", why="enough", actor="me")
        hand.switchboard.refresh()
        return "done"

    async def body(order: Any, desk: Desk) -> list[str]:
        return [await desk.step("one", stop), await desk.step("two", lambda: "also")]

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), len(hand.task(task)["steps"])) == ("waiting:switch", 1)
    clear_switch(hand.house.db, hand.clock, why="go on", actor="me")
    hand.settle(rounds=2)
    assert hand.task(task)["result"] == ["done", "also"]


def test_a_completion_is_posted_to_the_outbox_with_the_end(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a"}, callback_url="https://example.com/hook").id
    hand.run_all()
    with hand.house.db.read() as conn:
        notice = conn.execute(sa.select(notices)).mappings().one()
    assert (notice["target"], notice["task_id"]) == ("https://example.com/hook", task)
    assert (notice["payload"]["type"], notice["payload"]["data"]["state"]) == ("task.done", "done")


def test_an_unknown_playbook_in_the_queue_is_a_dead_letter_not_a_loop(hand: Hand) -> None:
    hand.have(ask_body())
    task = hand.submit("job", {"name": "a"}).id
    hand.have()
    hand.run_all()
    assert hand.state(task) == "dead"
    assert "job" in hand.task(task)["error"]["message"]


def test_ask_person_from_the_playbook_itself(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> None:
        raise AskPerson("two instructions contradict each other")

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert hand.task(task)["error"]["message"] == "two instructions contradict each other"


def test_text_that_no_database_takes_does_no_harm(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> str:
        echoed = await desk.step("echo", lambda: "a\ud800b\0c")
        raise GiveUp(f"what is this: {echoed} \udfff \0")

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["error"]["message"]) == (
        "dead",
        "what is this: a\ufffdb\ufffdc \ufffd \ufffd",
    )


def test_a_step_that_returns_no_json_is_a_dead_letter_that_says_so(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> None:
        await desk.step("make", object)

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert (hand.state(task), hand.task(task)["steps"][0]["status"]) == ("dead", "failed")
    assert "JSON" in hand.task(task)["error"]["message"]


def test_a_step_may_be_given_what_json_cannot_hold(hand: Hand) -> None:
    async def body(order: Any, desk: Desk) -> str:
        return await desk.step("use", lambda client: type(client).__name__, object())

    hand.have(body)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    assert hand.task(task)["result"] == "object"
    with hand.house.db.read() as conn:
        assert conn.execute(sa.select(runs.c.input)).scalar_one()["args"] == ["<object>"]


def test_the_version_that_a_task_started_with_stays_on_record(hand: Hand) -> None:
    hand.have(ask_body(), title="old")
    task = hand.submit("job", {"name": "a"}).id
    hand.have(ask_body(), title="new")
    started_with = hand.house.registry.get("job").version
    assert hand.task(task)["playbook_version"] != started_with
    hand.run_all()
    hand.have(ask_body(), title="newest")
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert hand.task(task)["playbook_version"] == started_with


def test_a_broken_off_leg_is_queued_anew(hand: Hand) -> None:
    task = hand.submit("drill", {"name": "a"}).id
    hand.house.dispatcher.client.cancel_workflow(f"{task}:1")
    assert (hand.run_all(), sweeper.requeue_broken(hand.house), sweeper.requeue_broken(hand.house)) == (0, 1, 0)
    assert (hand.run_all(), hand.state(task)) == (1, "done")
