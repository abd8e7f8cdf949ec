"""Calls that wait for a batch leave together: what fits into one, when it leaves, and whom its answers wake."""

import asyncio
import dataclasses
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import open_house
from nightdesk.model.giving_back import wake_all
from nightdesk.model.simulator import Running
from nightdesk.model.waves import form_waves
from nightdesk.playbook import Registry, playbook
from nightdesk.store import batches, calls, tasks
from nightdesk.work import Desk
from tests.model.asking import CLAUDE, GPT, AskingHouse
from tests.model.questions import agent, asks
from tests.support.hand import Body

SHORT = asks("Say NAME.")
_KEY = "sk-night-1234567890"  # pragma: allowlist secret


@pytest.fixture(autouse=True)
def _without_canaries(request: pytest.FixtureRequest) -> None:
    for name in {"asking", "asking_anywhere"} & set(request.fixturenames):
        request.getfixturevalue(name).set(waves={"canary": False})


def _batches(asking: AskingHouse) -> list[Any]:
    with asking.house.db.read() as conn:
        return list(conn.execute(sa.select(batches).order_by(batches.c.created_at, batches.c.members.desc())))


def _form(asking: AskingHouse) -> int:
    return form_waves(asking.room, asking._wake)


def _join(asking: AskingHouse, names: str) -> None:
    for name in names:
        asking.submit("job", {"name": name})
    asking.run_all()


def _members(asking: AskingHouse) -> list[int]:
    return [batch.members for batch in _batches(asking)]


def test_a_task_that_asks_in_the_batch_lane_is_a_row_when_its_leg_has_come_to_rest(asking: AskingHouse) -> None:
    asking.have(SHORT, lane="batch")
    _join(asking, "a")
    [task], [call] = asking.tasks(), asking.calls()
    assert (task.state, task.waiting_for, task.wake_at, task.slot) == ("waiting", "batch", None, None)
    assert (call.status, call.joined_at) == ("wanted", asking.clock.now())
    assert task.worked_ms < 5_000


def test_a_wave_leaves_when_nothing_has_joined_it_for_a_while(asking_anywhere: AskingHouse) -> None:
    asking = asking_anywhere
    asking.have(SHORT, lane="batch")
    _join(asking, "ab")
    asking.pass_time(4)
    _join(asking, "c")
    asking.pass_time(4)
    assert (_form(asking), _members(asking)) == (0, [])
    asking.pass_time(1)
    assert (_form(asking), _form(asking), _members(asking)) == (1, 0, [3])
    assert {call.status for call in asking.calls()} == {"sent"}


def test_a_wave_leaves_after_the_longest_wait_although_others_still_join(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False, "longest_wait_seconds": 12})
    asking.have(SHORT, lane="batch")
    for name in "abc":
        _join(asking, name)
        assert _form(asking) == 0
        asking.pass_time(4)
    _join(asking, "d")
    assert (_form(asking), _members(asking)) == (1, [4])


def test_a_full_wave_leaves_at_once_with_the_most_urgent(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False, "most_items": 3})
    asking.have(SHORT, lane="batch")
    for name, priority in (("a", 3), ("b", 2), ("c", 3), ("d", 1), ("e", 2)):
        asking.submit("job", {"name": name}, priority=priority)
    asking.run_all()
    assert (_form(asking), _form(asking), _members(asking)) == (1, 0, [3])
    assert sorted(call.priority for call in asking.calls() if call.status == "sent") == [1, 2, 2]
    asking.settle()
    assert _members(asking) == [3, 2]
    assert {task.state for task in asking.tasks()} == {"done"}


def test_a_wave_has_no_more_bytes_than_a_batch_may_have(asking: AskingHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightdesk.model.waves._MOST_BYTES", 5_000)
    asking.have(asks("Say NAME. " + "ö" * 300), lane="batch")  # 1,800 bytes when it is sent
    _join(asking, "abc")
    alone = asking.submit("job", {"name": "x" * 6_000}).id  # more than that by itself
    asking.settle()
    assert _members(asking) == [2, 1, 1]
    assert asking.state(alone) == "done"
    assert asking.meter() == {**asking.meter(), "executions": 4, "repeated": 0}


def _post(url: str, headers: Mapping[str, str], body: Json) -> Body:
    """As an SDK would ask, with these headers."""

    async def post(order: Any, desk: Desk) -> Any:
        async with desk.http_client() as http:
            answer = await http.post(url, json=body, headers=dict(headers))
            return answer.status_code

    return post


def _claude(url: str, model: str = "claude-haiku-4-5", key: str = _KEY, **headers: str) -> Body:
    named = {"x-api-key": key, "anthropic-version": "2026-10-21"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    said = [{"role": "user", "content": f"Tell {url} of {model} {headers}"}]
    return _post(f"{url}/v1/messages", named, {"model": model, "max_tokens": 50, "messages": said})


def _gpt(url: str, path: str, model: str) -> Body:
    body: Json = {"model": model, "input": "Say it."}
    if path != "responses":
        body = {"model": model, "messages": [{"role": "user", "content": "Say it."}]}
    return _post(f"{url}/v1/{path}", {"authorization": f"Bearer {_KEY}"}, body)


def _gemini(url: str, model: str) -> Body:
    body = {"contents": [{"role": "user", "parts": [{"text": "Say it."}]}]}
    return _post(f"{url}/v1beta/models/{model}:generateContent", {"x-goog-api-key": _KEY}, body)


def test_what_shares_a_batch(asking: AskingHouse) -> None:
    url, other = asking.url, asking.url.replace("127.0.0.1", "localhost")
    bodies = [
        *(_claude(url), _claude(url, "claude-sonnet-4-6")),  # any model
        *(_claude(url, anthropic_beta="b,a"), _claude(url, "claude-sonnet-4-6", anthropic_beta="a, b")),
        _claude(url, anthropic_version="2023-06-01"),
        _claude(url, key=f"{_KEY}-2"),
        _claude(other),
        *(_gpt(url, "responses", "gpt-5-mini"), _gpt(url, "responses", "gpt-5-mini")),
        _gpt(url, "responses", "gpt-5-nano"),
        _gpt(url, "chat/completions", "gpt-5-mini"),
        *(_gemini(url, "gemini-2.5-flash"), _gemini(url, "gemini-2.5-flash")),
        _gemini(url, "gemini-2.5-flash-lite"),
    ]

    async def one_of_them(order: Any, desk: Desk) -> Any:
        return await bodies[int(order.name)](order, desk)

    asking.have(one_of_them, lane="batch")
    for number in range(len(bodies)):
        asking.submit("job", {"name": str(number)})
    asking.settle()
    assert [task.result for task in asking.tasks()] == [200] * len(bodies)
    by_provider = {name: sorted(b.members for b in _batches(asking) if b.provider == name) for name in _PROVIDERS}
    assert by_provider == {"anthropic": [1, 1, 1, 2, 2], "openai": [1, 1, 2], "google": [1, 2]}
    versions = {batch.headers["anthropic-version"] for batch in _batches(asking) if batch.provider == "anthropic"}
    assert versions == {"2023-06-01", "2026-10-21"}


_PROVIDERS = ("anthropic", "openai", "google")


def test_one_batch_serves_several_playbooks_frameworks_and_workers(
    asking_anywhere: AskingHouse, providers: Running
) -> None:
    here = asking_anywhere
    bodies = {"by-sdk": SHORT, "by-agent": agent("Say NAME.", CLAUDE), "by-hand": _claude(here.url, key="simulated")}
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
        assert ([here.state(task_id) for task_id in ids], _members(here)) == (["done"] * 3, [3])
        assert len({call.body_hash for call in here.calls()}) == 3
    finally:
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
    assert (len(legs), _members(asking)) == (2, [5])


def test_what_expired_goes_with_the_next_wave_and_then_live(asking: AskingHouse) -> None:
    asking.have(SHORT, lane="batch")
    asking.fault("expire", share=0.5, times=1)
    _join(asking, "abcd")
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    assert (_members(asking), set(asking.lanes())) == ([4, 2], {"batch"})
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
    _join(asking, "abcdefgh")
    for _ in range(30):
        asking.settle()
        asking.pass_time(30)
    assert [(task.state, task.failures) for task in asking.tasks()] == [("done", 0)] * 8
    failed = [batch for batch in _batches(asking) if batch.status == "failed"]
    assert failed
    assert all("token_limit_exceeded" in batch.error for batch in failed)
    assert max(batch.members for batch in _batches(asking) if batch.status == "ended") < 8
    assert asking.meter() == {**asking.meter(), "executions": 8, "repeated": 0}


def test_our_own_count_of_queued_tokens_lets_through_what_there_is_room_for(asking: AskingHouse) -> None:
    asking.set(limits={"routes": {"anthropic:*": {"queued_tokens": 250}}})
    asking.have(SHORT, lane="batch")
    _join(asking, "abcdefgh")
    estimate = asking.calls()[0].input_estimate
    asking.pass_time(5)
    assert (_form(asking), _form(asking)) == (1, 0)
    assert _members(asking)[0] * estimate <= 250 < 8 * estimate
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    assert max(_members(asking)) * estimate <= 250


def test_results_are_read_as_a_stream(asking: AskingHouse) -> None:
    """Ten megabytes of answers are never in memory at once."""
    asking.have(asks('Count for NAME. sim:{"length": 1000}'), lane="batch")
    _join(asking, "a")
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
