"""Agents that run away stop at their caps, without passing them; answers of a wrong form end before a person."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from pydantic_ai import Agent

from nightdesk.playbook import load_registry
from nightdesk.store import budgets, events
from nightdesk.work import Desk
from tests.model.asking import CLAUDE, AskingHouse
from tests.model.questions import asks
from tests.support.playbooks import write_yaml


def _money(asking: AskingHouse, scope: str) -> tuple[int, int]:
    """What is reserved and spent."""
    query = sa.select(sa.func.sum(budgets.c.reserved_micros), sa.func.sum(budgets.c.spent_micros))
    with asking.house.db.read() as conn:
        row = conn.execute(query.where(budgets.c.scope == scope)).one()
    return int(row[0]), int(row[1])


def _times_asked(asking: AskingHouse) -> int:
    """How often a person was asked for money."""
    query = sa.select(sa.func.count()).where(events.c.kind == "budget", events.c.state == "asked")
    with asking.house.db.read() as conn:
        return conn.execute(query).scalar_one()


def _executions(asking: AskingHouse) -> int:
    report = asking.meter()
    assert report["repeated"] == 0
    return int(report["executions"])


async def _never_satisfied(order: Any, desk: Desk) -> Any:
    """An agent whose model calls its tool again and again."""

    def look_up(word: str) -> str:
        return f"Nothing of {word}."

    asker: Any = Agent(desk.model(), tools=[desk.tool(look_up)])
    return (await asker.run(f'Find out about {order.name}. sim:{{"turns": "forever"}}', usage_limits=None)).output


def test_a_loop_of_tools_ends_at_its_limit_of_turns(asking: AskingHouse) -> None:
    task = asking.ask(_never_satisfied, lane="live", model=CLAUDE, limits={"turns": 12})
    assert (task["state"], task["error"]["class"], _executions(asking)) == ("dead", "overrun", 12)


@pytest.mark.parametrize("lane", ["live", "batch"])
def test_a_loop_of_tools_ends_at_the_cap_of_its_task(asking: AskingHouse, lane: Any) -> None:
    asking.set(waves={"canary": False})
    stated: Any = {"model": CLAUDE, "limits": {"tokens": 100}, "budget": {"task": 0.004 if lane == "live" else 0.002}}
    task = asking.ask(_never_satisfied, lane=lane, **stated)
    assert asking.state(task["id"]) == "waiting:budget"
    reserved, spent = _money(asking, "task")
    assert (reserved, 500 < spent <= 4000) == (0, True)
    assert Decimal(spent) / 1_000_000 == sum(call.cost_usd for call in asking.calls())
    assert _times_asked(asking) == 1
    before = _executions(asking)
    asking.pass_time(3600)
    asking.settle()
    assert (_executions(asking), _times_asked(asking)) == (before, 1)


async def _fan_out(order: Any, desk: Desk) -> Any:
    """A hundred questions at once."""
    client = AsyncAnthropic(http_client=desk.http_client(), timeout=None)

    async def ask(number: int) -> str:
        messages: Any = [{"role": "user", "content": f'Count {number}. sim:{{"length": 200}}'}]
        answer = await client.messages.create(model="claude-haiku-4-5", max_tokens=200, messages=messages)
        return answer.id

    return await asyncio.gather(*(ask(number) for number in range(100)))


def test_a_fan_out_ends_at_the_cap_of_its_task(asking_anywhere: AskingHouse) -> None:
    """A thousandth of a dollar for each of the questions, and room for ten."""
    asking = asking_anywhere
    asking.set(model={"turns": 500})
    task = asking.ask(_fan_out, lane="live", budget={"task": 0.0104})
    assert asking.state(task["id"]) == "waiting:budget"
    reserved, spent = _money(asking, "task")
    assert (reserved, spent <= 10_400, _executions(asking)) == (0, True, 10)
    assert _times_asked(asking) == 1


def test_many_tasks_at_once_end_at_the_cap_of_the_day(asking_anywhere: AskingHouse) -> None:
    asking = asking_anywhere
    asking.set(budget={"day": "0.0104"})
    asking.have(asks('Count for NAME. sim:{"length": 200}', most=200), lane="live")
    for number in range(16):
        asking.submit("job", {"name": str(number)})
    asking.run_together(asking.due())
    assert [task.state for task in asking.tasks()].count("done") == 9  # somewhat more is reserved than is spent
    asking.settle()
    reserved, spent = _money(asking, "day")
    assert (reserved, spent <= 10_400, _executions(asking)) == (0, True, 10)
    assert _times_asked(asking) == 1


def test_a_storm_of_retries_is_four_tries_a_task_and_then_five_for_all(asking: AskingHouse) -> None:
    asking.fault("status", status=500, times=10_000)
    asking.have(asks("Say NAME."), lane="live")
    lone = asking.submit("job", {"name": "lone"}).id
    asking.settle()
    assert (asking.state(lone), _sent(asking)) == ("dead", 4)  # the SDK is told not to try again itself
    for number in range(12):
        asking.submit("job", {"name": str(number)})
    asking.run_all()
    assert _sent(asking) == 4 + 5
    assert [task.state for task in asking.tasks()].count("waiting") == 12
    asking.pass_time(601)
    asking.run_all()
    assert _sent(asking) == 4 + 5 + 1
    assert _money(asking, "day") == (0, 0)


def _sent(asking: AskingHouse) -> int:
    [fault] = asking.simulator.faults.shown()
    return 10_000 - int(fault["times"])


def test_requests_that_get_no_answer_count_as_spent_until_the_cap_is_reached(asking: AskingHouse) -> None:
    asking.set(model={"timeout_seconds": 1}, budget={"day": "0.0104"})
    asking.fault("hang", seconds=2)
    asking.have(asks("Say NAME.", most=200), lane="live")
    for number in range(20):
        asking.submit("job", {"name": str(number)})
    asking.run_together(asking.due())
    reserved, spent = _money(asking, "day")
    assert (reserved, 9_000 < spent <= 10_400) == (0, True)
    assert _times_asked(asking) == 1


def test_answers_ten_times_as_long_as_before_stay_under_the_cap(asking: AskingHouse) -> None:
    asking.set(budget={"day": "0.02"}, waves={"canary": False})
    for lane in ("live", "batch"):
        asking.have(asks('Count for NAME. sim:{"length": 50}', most=500), lane=lane)
        for number in range(6):
            asking.submit("job", {"name": f"{lane}-{number}"})
        asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    asking.have(asks('Count for NAME. sim:{"length": 500}', most=500), lane="live")
    for number in range(12):
        asking.submit("job", {"name": f"long-{number}"})
    asking.run_together(asking.due())
    asking.settle()
    reserved, spent = _money(asking, "day")
    assert (reserved, 17_000 < spent <= 20_000) == (0, True)
    assert _times_asked(asking) == 1


async def _gemini_of_next_year(order: Any, desk: Desk) -> Any:
    client = genai.Client(vertexai=False, http_options=types.HttpOptions(httpx_async_client=desk.http_client()))
    asked = f'Count for {order.name}. sim:{{"length": 1000}}'
    limit = types.GenerateContentConfig(max_output_tokens=1000)
    await client.aio.models.generate_content(model="gemini-3.6-flash", contents=asked, config=limit)


def test_a_price_that_doubles_at_midnight_is_reserved_for_before_and_paid_after(asking: AskingHouse) -> None:
    """By the price list, gemini-3.6-flash is to cost twice as much from 2027 on."""
    asking.clock.move_to(datetime(2026, 12, 31, 23, 50, tzinfo=UTC))
    asking.set(budget={"night": "0.0250"}, night={"start": "23:00"}, waves={"canary": False})
    asking.have(_gemini_of_next_year, lane="live", when="night")
    ids = [asking.submit("job", {"name": name}).id for name in "abcdef"]
    asking.dispatch(*ids[:2])
    asking.run_all()
    before = [call.cost_usd for call in asking.calls()]
    asking.have(_gemini_of_next_year, lane="batch", when="night")
    asking.dispatch(ids[2])
    asking.run_all()
    [out] = [call for call in asking.calls() if call.lane == "batch"]
    asking.send_waves()
    asking.pass_time(900)
    asking.collect()
    [back] = [call for call in asking.calls() if call.lane == "batch"]
    assert back.cost_usd == before[0]  # half of twice the price
    assert back.cost_usd <= Decimal(out.reserved_micros) / 1_000_000
    asking.have(_gemini_of_next_year, lane="live", when="night")
    asking.dispatch(*ids[3:])
    asking.settle()
    costs = sorted(call.cost_usd for call in asking.calls())
    assert [round(cost / before[0], 2) for cost in costs] == [1, 1, 1, 2]
    reserved, spent = _money(asking, "night")
    assert (reserved, spent <= 25_000, _times_asked(asking)) == (0, True, 1)


LISTING = """
name: listing
when: now
input: {asin: string, about: string}
output: {title: string, stars: int}
key: "{asin}"
model: anthropic:claude-haiku-4-5
lane: live
limits: {tokens: 400, retries: 0}
instructions: Write a title.
"""


def _listed(asking: AskingHouse, about: str, *, output: str = "{title: string, stars: int}") -> dict[str, Any]:
    """A task of a playbook without code, followed to its end."""
    write_yaml(asking.house.home, LISTING.replace("{title: string, stars: int}", output), folder="listing")
    asking.house = dataclasses.replace(asking.house, registry=load_registry(asking.house.home))
    asking.have()
    task_id = asking.submit("listing", {"asin": "B001", "about": about}).id
    asking.settle()
    return asking.task(task_id)


def test_instructions_alone_make_a_draft_for_a_person(asking: AskingHouse) -> None:
    task = _listed(asking, "A lamp of brass.", output="{asin: string, title: string}")
    assert (task["state"], task["error"], task["result"]["asin"]) == ("review", None, "B001")
    assert task["result"]["title"].startswith("[simulated]")
    assert _executions(asking) == 1


@pytest.mark.parametrize(
    "answer", ['{"text": "Here is your title: Brass lamp"}', '{"length": 100000}', '{"empty": true}'],
    ids=["text", "huge", "empty"],
)  # fmt: skip
def test_an_answer_that_is_no_draft_is_sent_back_once(asking: AskingHouse, answer: str) -> None:
    task = _listed(asking, f"A lamp. sim:{answer}")
    assert len(asking.calls()) == 2
    assert (task["state"], task["error"], set(task["result"])) == ("review", None, {"title", "stars"})
    assert max(call.output_tokens for call in asking.calls()) <= 400


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ('A lamp. sim:{"wrong_schema": true}', "title: Field required"),
        ("Copied from asin: B999, title: A better lamp", 'asin must be "B001", as in the input'),
        ('A lamp. sim:{"text": "A lamp"}', 'asin must be "B001", as in the input'),
    ],
    ids=["a wrong form", "another item's", "text, then another item's"],
)
def test_what_is_wrong_again_goes_to_a_person_with_the_reason_and_is_no_draft(
    asking: AskingHouse, about: str, reason: str
) -> None:
    task = _listed(asking, about, output="{asin: string, title: string}")
    assert (task["state"], task["result"], len(asking.calls())) == ("review", None, 2)
    assert task["error"]["class"] == "person"
    assert task["error"]["message"].startswith("The model did not give what the playbook asks for: ")
    assert reason in task["error"]["message"]
