"""Batches on their way back: whom their answers wake, and what becomes of items that have none."""

import asyncio
import dataclasses
import tracemalloc
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.house import open_house
from nightdesk.model.giving_back import wake_all
from nightdesk.model.simulator import Running
from nightdesk.playbook import Registry, playbook
from nightdesk.store import calls, tasks
from nightdesk.work import Desk
from tests.model.asking import CLAUDE, GPT, AskingHouse
from tests.model.questions import agent, asks
from tests.model.waving import batches_of, form, join, members_of, posts_to_claude
from tests.support.hand import Body

SHORT = asks("Say NAME.")


@pytest.fixture(autouse=True)
def _without_canaries(request: pytest.FixtureRequest) -> None:
    for name in {"asking", "asking_anywhere"} & set(request.fixturenames):
        request.getfixturevalue(name).set(waves={"canary": False})


def test_one_batch_serves_several_playbooks_frameworks_and_workers(
    asking_anywhere: AskingHouse, providers: Running
) -> None:
    here = asking_anywhere
    bodies = {
        "by-sdk": SHORT,
        "by-agent": agent("Say NAME.", CLAUDE),
        "by-hand": posts_to_claude(here.url, key="simulated"),
    }
    there = AskingHouse(open_house(here.house.home, clock=here.clock), here.clock, providers)
    try:
        for asking in (here, there):
            _know(asking, bodies)
            asking.set(waves={"canary": False})
        ids = [here.submit(name, {"name": name}).id for name in bodies]
        assert sum(asking.step() is not None for asking in (here, there, here)) == 3
        here.send_waves()
        here.pass_time(60)
        there.collect()
        assert sum(asking.step() is not None for asking in (there, here, there)) == 3
        assert ([here.state(task_id) for task_id in ids], members_of(here)) == (["done"] * 3, [3])
        assert len({call.body_hash for call in here.calls()}) == 3
    finally:
        there.close_room()
        there.house.close()


def _know(asking: AskingHouse, bodies: dict[str, Body]) -> None:
    """Playbooks of these names and bodies, instead of any other."""
    stated: Any = {"input": {"name": "string"}, "key": "{name}", "when": "now", "risk": "internal", "lane": "batch"}
    found = [playbook(name, **stated)(_function(body)) for name, body in bodies.items()]
    asking.house = dataclasses.replace(asking.house, registry=Registry(found))


def _function(body: Body) -> Any:
    async def run(order: Any, desk: Desk) -> Any:
        return await body(order, desk)

    return run


def test_a_task_with_several_calls_in_a_batch_is_woken_once(asking: AskingHouse) -> None:
    legs: list[int] = []

    async def body(order: Any, desk: Desk) -> Any:
        legs.append(1)
        return await asyncio.gather(*(asks(f"Say {number}.")(order, desk) for number in range(5)))

    asking.ask(body, lane="batch")
    assert (len(legs), members_of(asking)) == (2, [5])


def test_what_expired_goes_with_the_next_wave_and_then_live(asking: AskingHouse) -> None:
    asking.have(SHORT, lane="batch")
    asking.fault("expire", share=0.5, times=1)
    join(asking, "abcd")
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    assert (members_of(asking), set(asking.lanes())) == ([4, 2], {"batch"})
    asking.fault("expire", times=2)
    asking.submit("job", {"name": "e"})
    asking.settle()
    [late] = [call for call in asking.calls() if call.attempt == 3]
    assert (late.status, late.lane) == ("done", "live")
    assert late.lane_reason.startswith("it came back from a batch unanswered (it expired in its batch); ")
    assert asking.meter() == {**asking.meter(), "executions": 5, "repeated": 0}


def test_what_the_account_has_no_room_for_waits_and_goes_in_parts(asking: AskingHouse) -> None:
    """OpenAI fails the whole batch; there would never be room for all of it at once."""
    asking.have(agent("Say NAME. " + "It is a long story. " * 20, GPT), lane="batch")
    asking.simulator.behaviour.queued_tokens = 300
    join(asking, "abcdefgh")
    for _ in range(30):
        asking.settle()
        asking.pass_time(30)
    assert [(task.state, task.failures) for task in asking.tasks()] == [("done", 0)] * 8
    failed = [batch for batch in batches_of(asking) if batch.status == "failed"]
    assert failed
    assert all("token_limit_exceeded" in batch.error for batch in failed)
    assert max(batch.members for batch in batches_of(asking) if batch.status == "ended") < 8
    assert asking.meter() == {**asking.meter(), "executions": 8, "repeated": 0}


def test_our_own_count_of_queued_tokens_lets_through_what_there_is_room_for(asking: AskingHouse) -> None:
    asking.set(limits={"routes": {"anthropic:*": {"queued_tokens": 250}}})
    asking.have(SHORT, lane="batch")
    join(asking, "abcdefgh")
    estimate = asking.calls()[0].input_estimate
    asking.pass_time(5)
    assert (form(asking), form(asking)) == (1, 0)
    assert members_of(asking)[0] * estimate <= 250 < 8 * estimate
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    assert max(members_of(asking)) * estimate <= 250


def test_results_are_read_as_a_stream(asking: AskingHouse) -> None:
    """Ten megabytes of answers are never in memory at once."""
    asking.have(asks('Count for NAME. sim:{"length": 1000}'), lane="batch")
    join(asking, "a")
    _copy(asking, 2_500)
    asking.send_waves()
    asking.pass_time(60)
    asking.meter()  # so that the simulator has made its answers, and keeps them in memory, before
    tracemalloc.start()
    try:
        asking.collect()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with asking.house.db.read() as conn:
        done = calls.c.status == "done"
        size = sa.func.sum(sa.func.length(sa.cast(calls.c.response, sa.Text)))
        count, length = conn.execute(sa.select(sa.func.count(), size).where(done)).one()
    assert (count, length > 10_000_000) == (2_501, True)
    assert peak < 7_000_000


def _copy(asking: AskingHouse, count: int) -> None:
    """So many tasks more that wait for a call of the same kind, without a leg for each of them."""
    with asking.house.db.write() as conn:
        task, call = (dict(conn.execute(sa.select(table)).mappings().one()) for table in (tasks, calls))
        names = [f"{number:040}" for number in range(count)]
        ended = {"state": "done", "waiting_for": None, "ended_at": asking.clock.now()}
        conn.execute(tasks.insert(), [task | ended | {"id": name, "key": name} for name in names])
        conn.execute(calls.insert(), [call | {"id": name, "task_id": name, "reserved_micros": 0} for name in names])


def test_tasks_are_woken_some_at_a_time_the_most_urgent_first(asking: AskingHouse) -> None:
    """A statement takes only so many parameters, and a wave may have more tasks than that."""
    found = [
        {"task_id": f"{number}", "priority": number % 4, "created_at": asking.clock.now()} for number in range(1_200)
    ]
    woken: list[list[str]] = []
    with asking.house.db.write() as conn:
        wake_all(conn, [*found, *found], lambda _, ids: woken.append(list(ids)))
    assert [len(some) for some in woken] == [500, 500, 200]
    assert [int(task) % 4 for some in woken for task in some] == sorted(number % 4 for number in range(1_200))
