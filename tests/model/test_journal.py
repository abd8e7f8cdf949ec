"""Every call is a row, and a finished one is answered from it: whatever happens to the leg, nothing is paid again."""

import asyncio
import os
import re
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from anthropic import AsyncAnthropic

from nightdesk.model.asks import call_id
from nightdesk.store import runs
from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.model.dying import MODEL, Killed, say, settle_through_deaths
from tests.model.questions import asks


@pytest.mark.parametrize("lane", ["live", "batch"])
def test_every_call_is_a_row_that_tells_all_of_it(asking_anywhere: AskingHouse, lane: str) -> None:
    asking = asking_anywhere
    asking.set(waves={"canary": False})
    asking.simulator.behaviour.cache_hit_rate = 1.0
    system = [{"type": "text", "text": "Be short. " * 600, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    task = asking.ask(asks("Say one.", "Say two.", system=system), lane=lane)
    first, second = asking.calls()
    assert task["state"] == "done"
    assert [(call.task_id, call.version, call.step, call.occurrence) for call in (first, second)] == [
        (task["id"], 1, "", 1)
    ] * 2
    assert [call.position for call in (first, second)] == [1, 2]
    assert all(re.fullmatch("[0-9a-f]{64}", call.body_hash) for call in (first, second))
    assert first.id == call_id(str(task["id"]), 1, "", first.body_hash, 1)
    assert (first.provider, first.model, first.lane, first.status) == ("anthropic", MODEL, lane, "done")
    assert (first.lane_reason, first.attempt) == ("the playbook asks for it", 1)
    assert (first.cache_read_tokens, second.cache_write_tokens) == (0, 0)
    assert first.cache_write_tokens == second.cache_read_tokens > 1400
    assert first.input_tokens > first.cache_write_tokens
    assert first.created_at <= first.sent_at <= first.ended_at
    assert f"{sum(call.cost_usd for call in (first, second)):f}" == task["cost_usd"]
    bill = Decimal(asking.meter()["cost_usd"])
    assert bill <= first.cost_usd + second.cost_usd < bill + Decimal("0.000002")
    assert (first.saved_usd > 0) == (lane == "batch")
    assert first.prices.startswith("genai-prices ")


@pytest.mark.parametrize("lane", ["live", "batch"])
def test_a_finished_call_is_answered_from_the_journal_wherever_the_leg_dies(asking: AskingHouse, lane: str) -> None:
    said: list[list[str]] = []
    deaths: list[int] = []

    async def body(order: Any, desk: Desk) -> Any:
        said.append([])
        for number in range(4):
            if number == len(deaths):
                deaths.append(number)
                raise Killed
            if number < 3:
                said[-1].append(await say(desk, f"Tell of number {number}"))
        return said[-1]

    asking.set(waves={"canary": False})
    asking.have(body, lane=lane)
    task_id = asking.submit("job", {"name": "a"}).id
    assert settle_through_deaths(asking) == 4
    assert (asking.state(task_id), asking.task(task_id)["result"]) == ("done", said[-1])
    assert all(earlier == said[-1][: len(earlier)] for earlier in said)
    assert asking.meter() == {**asking.meter(), "executions": 3, "repeated": 0}
    assert [call.attempt for call in asking.calls()] == [1, 1, 1]
    assert asking.divergences() == []


def test_what_is_asked_again_on_purpose_is_another_call(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False})
    task = asking.ask(asks("Say it.", "Say it.", "Say it."), lane="batch")
    assert task["state"] == "done"
    assert [(call.occurrence, call.position) for call in asking.calls()] == [(1, 1), (2, 2), (3, 3)]
    assert len({call.body_hash for call in asking.calls()}) == 1
    assert asking.meter() == {**asking.meter(), "executions": 3, "repeated": 2}


def test_what_an_sdk_tries_again_is_the_same_call(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
        request = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Say it."}]}
        async with desk.http_client() as http:
            for count in ("0", "1", "2", "0"):
                headers = {"x-api-key": "k", "anthropic-version": "2026-10-21", "x-stainless-retry-count": count}
                await http.post(url, json=request, headers=headers)

    asking.ask(body, lane="live")
    assert [call.occurrence for call in asking.calls()] == [1, 2]
    assert asking.meter()["executions"] == 2


def test_an_sdk_is_told_not_to_try_again_for_the_task_does(asking: AskingHouse) -> None:
    asking.fault("status", status=500, times=1)
    asking.have(asks("Say it."), lane="live")
    task_id = asking.submit("job", {"name": "a"}).id
    asking.run_all()
    [call] = asking.calls()
    assert (asking.state(task_id), call.status, call.attempt, call.http_status) == ("waiting:retry", "failed", 1, 500)
    asking.settle()
    [call] = asking.calls()
    assert (asking.state(task_id), call.status, call.attempt, call.error) == ("done", "done", 2, None)


def test_a_streamed_call_and_a_plain_one_are_the_same(asking: AskingHouse) -> None:
    """The code was changed to stream, while a task was half done."""
    texts: list[str] = []

    async def body(order: Any, desk: Desk) -> Any:
        client = AsyncAnthropic(http_client=desk.http_client())
        request: Any = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Say it."}]}
        if not texts:
            message = await client.messages.create(**request)
            texts.append(message.content[0].text)
            raise Killed
        async with client.messages.stream(**request) as stream:
            texts.append(await stream.get_final_text())

    asking.have(body, lane="live")
    task_id = asking.submit("job", {"name": "a"}).id
    assert settle_through_deaths(asking) == 1
    assert (asking.state(task_id), len(set(texts))) == ("done", 1)
    assert (len(asking.calls()), asking.meter()["executions"]) == (1, 1)
    assert asking.divergences() == []


def test_steps_that_ask_at_once_have_their_own_calls_and_costs(asking: AskingHouse) -> None:
    legs: list[int] = []

    async def body(order: Any, desk: Desk) -> Any:
        legs.append(1)

        async def ask(town: str) -> str:
            return await say(desk, "Tell of a town.") + await say(desk, f"Tell of {town}.")

        towns = await asyncio.gather(*(desk.step("ask", ask, town) for town in ("Lund", "Malmö", "Ystad")))
        if len(legs) < 5:
            raise Killed
        return [*towns, await say(desk, "Tell of a town.")]

    asking.set(waves={"canary": False})
    asking.have(body, lane="batch")
    task_id = asking.submit("job", {"name": "a"}).id
    assert settle_through_deaths(asking) == 2
    assert asking.state(task_id) == "done"
    assert sorted(call.step for call in asking.calls()) == ["", *(f"ask#{number}" for number in (1, 1, 2, 2, 3, 3))]
    assert (asking.meter()["executions"], asking.divergences()) == (7, [])
    with asking.house.db.read() as conn:
        rows = conn.execute(sa.select(runs).order_by(runs.c.occurrence)).all()
    costs = [sum(call.cost_usd for call in asking.calls() if call.step == f"ask#{row.occurrence}") for row in rows]
    assert [row.cost_usd for row in rows] == costs
    assert {row.model for row in rows} == {MODEL}


def test_answers_are_reused_where_the_playbook_allows_it_and_never_for_another_tenant(
    asking_anywhere: AskingHouse,
) -> None:
    asking = asking_anywhere
    asking.set(waves={"canary": False})
    asking.have(asks("What is the same for all?"), lane="batch", cache=True)
    results = []
    for name, tenant in [("a", "main"), ("b", "main"), ("c", "main"), ("d", "other"), ("e", "other")]:
        task_id = asking.submit("job", {"name": name}, tenant=tenant).id
        asking.settle()
        results.append(asking.task(task_id)["result"])
    first, second, third, fourth, fifth = asking.calls()
    assert len(set(results)) == 1
    assert [call.reused_from for call in (first, second, third)] == [None, first.id, first.id]
    assert [call.reused_from for call in (fourth, fifth)] == [None, fourth.id]
    assert (second.status, second.cost_usd, second.reserved_micros) == ("done", 0, 0)
    assert asking.meter()["executions"] == 2
    asking.have(asks("What is the same for all?"), lane="batch")
    asking.submit("job", {"name": "f"})
    asking.settle()
    assert asking.meter()["executions"] == 3
