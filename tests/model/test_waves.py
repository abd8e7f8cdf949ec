"""Calls that wait for a batch leave together: what fits into one, when it leaves, and whom its answers wake."""

from typing import Any

import pytest

from nightdesk.canonical import Json
from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.model.questions import asks
from tests.model.waving import KEY, batches_of, form, join, members_of, posts, posts_to_claude
from tests.support.hand import Body

SHORT = asks("Say NAME.")


@pytest.fixture(autouse=True)
def _without_canaries(request: pytest.FixtureRequest) -> None:
    for name in {"asking", "asking_anywhere"} & set(request.fixturenames):
        request.getfixturevalue(name).set(waves={"canary": False})


def test_a_task_that_asks_in_the_batch_lane_is_a_row_when_its_leg_has_come_to_rest(asking: AskingHouse) -> None:
    asking.have(SHORT, lane="batch")
    join(asking, "a")
    [task], [call] = asking.tasks(), asking.calls()
    assert (task.state, task.waiting_for, task.wake_at, task.slot) == ("waiting", "batch", None, None)
    assert (call.status, call.joined_at) == ("wanted", asking.clock.now())
    assert task.worked_ms < 5_000


def test_a_wave_leaves_when_nothing_has_joined_it_for_a_while(asking_anywhere: AskingHouse) -> None:
    asking = asking_anywhere
    asking.have(SHORT, lane="batch")
    join(asking, "ab")
    asking.pass_time(4)
    join(asking, "c")
    asking.pass_time(4)
    assert (form(asking), members_of(asking)) == (0, [])
    asking.pass_time(1)
    assert (form(asking), form(asking), members_of(asking)) == (1, 0, [3])
    assert {call.status for call in asking.calls()} == {"sent"}


def test_a_wave_leaves_after_the_longest_wait_although_others_still_join(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False, "longest_wait_seconds": 12})
    asking.have(SHORT, lane="batch")
    for name in "abc":
        join(asking, name)
        assert form(asking) == 0
        asking.pass_time(4)
    join(asking, "d")
    assert (form(asking), members_of(asking)) == (1, [4])


def test_a_full_wave_leaves_at_once_with_the_most_urgent(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False, "most_items": 3})
    asking.have(SHORT, lane="batch")
    for name, priority in (("a", 3), ("b", 2), ("c", 3), ("d", 1), ("e", 2)):
        asking.submit("job", {"name": name}, priority=priority)
    asking.run_all()
    assert (form(asking), form(asking), members_of(asking)) == (1, 0, [3])
    assert sorted(call.priority for call in asking.calls() if call.status == "sent") == [1, 2, 2]
    asking.settle()
    assert members_of(asking) == [3, 2]
    assert {task.state for task in asking.tasks()} == {"done"}


def test_a_wave_has_no_more_bytes_than_a_batch_may_have(asking: AskingHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightdesk.model.waves._MOST_BYTES", 5_000)
    asking.have(asks("Say NAME. " + "ö" * 300), lane="batch")  # 1,800 bytes when it is sent
    join(asking, "abc")
    alone = asking.submit("job", {"name": "x" * 6_000}).id  # more than that by itself
    asking.settle()
    assert members_of(asking) == [2, 1, 1]
    assert asking.state(alone) == "done"
    assert asking.meter() == {**asking.meter(), "executions": 4, "repeated": 0}


def _gpt(url: str, path: str, model: str) -> Body:
    body: Json = {"model": model, "input": "Say it."}
    if path != "responses":
        body = {"model": model, "messages": [{"role": "user", "content": "Say it."}]}
    return posts(f"{url}/v1/{path}", {"authorization": f"Bearer {KEY}"}, body)


def _gemini(url: str, model: str) -> Body:
    body = {"contents": [{"role": "user", "parts": [{"text": "Say it."}]}]}
    return posts(f"{url}/v1beta/models/{model}:generateContent", {"x-goog-api-key": KEY}, body)


def test_what_shares_a_batch(asking: AskingHouse) -> None:
    url, other = asking.url, asking.url.replace("127.0.0.1", "localhost")
    bodies = [
        *(posts_to_claude(url), posts_to_claude(url, "claude-sonnet-4-6")),  # any model
        *(posts_to_claude(url, anthropic_beta="b,a"), posts_to_claude(url, "claude-sonnet-4-6", anthropic_beta="a, b")),
        posts_to_claude(url, anthropic_version="2023-06-01"),
        posts_to_claude(url, key=f"{KEY}-2"),
        posts_to_claude(other),
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
    by_provider = {name: sorted(b.members for b in batches_of(asking) if b.provider == name) for name in _PROVIDERS}
    assert by_provider == {"anthropic": [1, 1, 1, 2, 2], "openai": [1, 1, 2], "google": [1, 2]}
    versions = {batch.headers["anthropic-version"] for batch in batches_of(asking) if batch.provider == "anthropic"}
    assert versions == {"2023-06-01", "2026-10-21"}


_PROVIDERS = ("anthropic", "openai", "google")
