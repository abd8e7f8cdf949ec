"""Money as tasks meet it: no cap is passed, what does not fit waits, a person is asked once, every cent is told."""

import asyncio
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI

from nightdesk.guard.caps import raise_cap
from nightdesk.guard.purses import Scope, purse_of
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.meter import identity, price
from nightdesk.store import budgets, events
from nightdesk.work import Desk
from nightdesk.work.tasks import cancel
from nightdesk.work.waking import wake_for_new_caps
from tests.model.asking import CLAUDE, AskingHouse
from tests.model.questions import agent, asks
from tests.support.hand import Body

# An answer of exactly a thousand tokens: half a cent of claude-haiku-4-5, and a little for the question.
LONG = asks('Count for NAME. sim:{"length": 1000}')
ONE_FITS = 0.007


def _sums(asking: AskingHouse) -> dict[str, tuple[int, int]]:
    """What is reserved and spent, by scope."""
    query = sa.select(budgets.c.scope, sa.func.sum(budgets.c.reserved_micros), sa.func.sum(budgets.c.spent_micros))
    with asking.house.db.read() as conn:
        return {row[0]: (int(row[1]), int(row[2])) for row in conn.execute(query.group_by(budgets.c.scope))}


def _days(asking: AskingHouse) -> dict[str, int]:
    """What was spent on each day."""
    query = sa.select(budgets.c.day, budgets.c.spent_micros).where(budgets.c.scope == "day")
    with asking.house.db.read() as conn:
        return {row.day: row.spent_micros for row in conn.execute(query)}


def _asked(asking: AskingHouse) -> list[str]:
    """What a person was asked for, in the words of the audit trail."""
    query = sa.select(events.c.cause).where(events.c.kind == "budget", events.c.state == "asked").order_by(events.c.id)
    with asking.house.db.read() as conn:
        return list(conn.scalars(query))


def _raise(asking: AskingHouse, scope: Scope, name: str, cap: float, dollars: str) -> None:
    purse = purse_of(asking.house.settings, asking.clock.now(), scope, name, Decimal(str(cap)))
    raise_cap(asking.house.db, asking.clock, purse, Decimal(dollars), why="it is worth it", actor="test")


async def _overtaken(asking: AskingHouse, leg: tuple[str, int]) -> None:
    """Two workers on the same leg; the second comes when the first has sent its request."""
    legs = asking.legs()
    first = asyncio.create_task(legs.run(*leg))
    while not any(call.status == "sending" for call in asking.calls()):  # noqa: ASYNC110 - a row tells nobody
        await asyncio.sleep(0.01)
    await legs.run(*leg)
    await first
    await asking.room.close()


CAPS: dict[str, dict[str, Any]] = {
    "day": {"settings": {"day": "0.007"}},
    "tenant": {"settings": {"tenant": {"main": {"day": "0.007"}}}},
    "each tenant": {"settings": {"tenant_day": "0.007"}},
    "playbook": {"budget": {"day": 0.007}},
    "each playbook": {"settings": {"playbook_day": "0.007"}},
}


@pytest.mark.parametrize("cap", CAPS)
def test_what_does_not_fit_under_a_cap_waits_until_a_person_allows_more(asking: AskingHouse, cap: str) -> None:
    stated = dict(CAPS[cap])
    asking.set(budget=stated.pop("settings", {}))
    asking.have(LONG, lane="live", **stated)
    first, second, third = [asking.submit("job", {"name": name}).id for name in "abc"]
    asking.settle()
    assert [asking.state(task) for task in (first, second, third)] == ["done", "waiting:budget", "waiting:budget"]
    assert asking.meter()["executions"] == 1
    assert len(_asked(asking)) == 1
    assert _asked(asking)[0].startswith("The budget of")
    scope: Any = cap.removeprefix("each ")
    _raise(asking, scope, {"day": "", "tenant": "main", "playbook": "job"}[scope], ONE_FITS, "0.006")
    asking.settle()
    assert sorted(asking.state(task) for task in (second, third)) == ["done", "waiting:budget"]
    assert len(_asked(asking)) == 2
    assert all(reserved == 0 for reserved, _ in _sums(asking).values())


def test_the_budget_of_a_night_is_for_the_work_of_the_night(asking: AskingHouse) -> None:
    asking.set(budget={"night": "0.007"})
    asking.have(LONG, lane="live", when="night")
    nightly = [asking.submit("job", {"name": name}).id for name in "ab"]
    asking.clock.advance(3 * 3600)  # it is one o'clock
    asking.dispatch(*nightly)
    asking.have(LONG, lane="live")
    other = asking.submit("job", {"name": "other"}).id
    asking.settle()
    assert [asking.state(task) for task in (*nightly, other)] == ["done", "waiting:budget", "done"]
    assert _asked(asking)[0].startswith("The budget of the night of 2026-11-30 is $0.007: ")
    waiting = asking.task(nightly[1])
    assert waiting["wake_at"] == "2026-12-01T05:00:00Z"
    asking.pass_time(24 * 3600)
    asking.run_all()
    assert asking.state(nightly[1]) == "waiting:time"
    asking.dispatch(nightly[1])
    asking.settle()
    assert asking.state(nightly[1]) == "done"


def test_a_new_day_brings_a_new_budget(asking: AskingHouse) -> None:
    asking.set(budget={"day": "0.007"}, night={"zone": "Europe/Berlin"})
    asking.have(LONG, lane="live")
    first, second = [asking.submit("job", {"name": name}).id for name in "ab"]
    asking.settle()
    assert [asking.state(task) for task in (first, second)] == ["done", "waiting:budget"]
    assert asking.task(second)["wake_at"] == "2026-11-30T23:00:00Z"  # midnight in Berlin
    asking.pass_time(3600)
    asking.settle()
    assert asking.state(second) == "done"
    spent = _days(asking)
    assert spent["2026-11-30"] == spent["2026-12-01"] > 5000


def test_a_task_has_one_budget_for_all_its_calls(asking: AskingHouse) -> None:
    several = asks(*[f'Count {number} for NAME. sim:{{"length": 1000}}' for number in range(5)])
    task = asking.ask(several, lane="live", budget={"task": 0.017})
    assert asking.state(task["id"]) == "waiting:budget"
    assert task["wake_at"] is None
    assert len(asking.calls(task["id"])) == 3
    _raise(asking, "task", task["id"], 0.017, "0.02")
    asking.settle()
    assert asking.state(task["id"]) == "done"
    assert asking.meter()["repeated"] == 0
    assert asking.task(task["id"])["cost_usd"] == f"{sum(call.cost_usd for call in asking.calls()):f}"
    assert len(_asked(asking)) == 1


def test_when_one_budget_refuses_nothing_is_reserved_in_any(asking: AskingHouse) -> None:
    asking.set(budget={"day": "1.00", "tenant_day": "1.00"})
    task = asking.ask(LONG, lane="live", budget={"task": 0.001, "day": 1.0})
    assert asking.state(task["id"]) == "waiting:budget"
    assert _sums(asking) == {"day": (0, 0), "tenant": (0, 0), "playbook": (0, 0), "task": (0, 0)}
    assert asking.calls() == []
    said = f"The budget of task {task['id']} is $0.001: $0.00 is spent and $0.00 reserved, and $0.005"
    assert [sentence.startswith(said) for sentence in _asked(asking)] == [True]


def test_a_worker_that_starts_with_a_higher_cap_lets_them_ask_again(asking: AskingHouse) -> None:
    asking.set(budget={"day": "0.007"})
    asking.have(LONG, lane="live")
    ids = [asking.submit("job", {"name": name}).id for name in "abc"]
    asking.settle()
    asking.set(budget={"day": "0.014"})
    asking.settle()
    assert [asking.state(task) for task in ids] == ["done", "waiting:budget", "waiting:budget"]
    assert wake_for_new_caps(asking.house) == 2
    asking.settle()
    assert sorted(asking.state(task) for task in ids) == ["done", "done", "waiting:budget"]


def test_money_that_becomes_free_lets_the_next_one_in(asking: AskingHouse) -> None:
    """Answers that are shorter than they might be leave room for others, one after the other."""
    asking.set(budget={"day": "0.007"})
    asking.have(asks("Say NAME."), lane="live")
    for number in range(12):
        asking.submit("job", {"name": f"task-{number}"})
    asking.run_together(asking.due())
    assert [task.state for task in asking.tasks()].count("waiting") == 11
    asking.settle()
    assert {task.state for task in asking.tasks()} == {"done"}
    assert _sums(asking)["day"][0] == 0
    assert asking.meter() == {**asking.meter(), "executions": 12, "repeated": 0}


def test_a_model_without_a_price_is_refused_unless_the_playbook_says_what_a_call_may_cost(asking: AskingHouse) -> None:
    unknown = asks("Say NAME.", model="claude-of-tomorrow")
    task = asking.ask(unknown, lane="live", name="refused")
    assert (task["state"], asking.meter()["executions"]) == ("review", 0)
    assert task["error"]["message"] == (
        "There is no known price for anthropic:claude-of-tomorrow, so no cap could hold. "
        "State in the playbook what one call may cost: budget: {call: 0.10}."
    )
    asking.set(waves={"canary": False})
    for lane in ("live", "batch"):
        asking.simulator.meter.clear()
        task = asking.ask(unknown, name=lane, lane=lane, budget={"call": 0.01, "day": 0.025})
        assert (task["state"], task["cost_usd"]) == ("done", "0.010000")
    late = asking.ask(unknown, name="late", lane="live", budget={"call": 0.01, "day": 0.025})
    assert asking.state(late["id"]) == "waiting:budget"


CHEAPER = {"use": CLAUDE, "cheaper": "anthropic:claude-3-haiku-20240307"}


def test_from_80_percent_on_the_cheaper_model_of_the_same_provider_is_asked_silently(asking: AskingHouse) -> None:
    asking.have(LONG, lane="live", model=CHEAPER, budget={"day": 0.0135})
    ids = [asking.submit("job", {"name": name}).id for name in "abcde"]
    asking.settle()
    assert [asking.state(task) for task in ids] == ["done"] * 4 + ["waiting:budget"]
    made = [asking.calls(task)[0] for task in ids[:4]]
    assert [call.model for call in made] == ["claude-haiku-4-5"] * 2 + ["claude-3-haiku-20240307"] * 2
    assert {call.asked_model for call in made} == {"claude-haiku-4-5"}
    assert made[2].lane_reason.endswith("instead of claude-haiku-4-5, for too little is left under a cap")
    assert made[3].lane_reason.endswith("instead of claude-haiku-4-5, for a cap is used to 80 %")
    assert made[2].response["model"] == "claude-3-haiku-20240307"
    assert asking.meter()["repeated"] == 0


def test_what_the_own_model_is_too_dear_for_is_asked_of_the_cheaper_one(asking: AskingHouse) -> None:
    """Before it has come to 80 %, if this one call would pass the cap."""
    task = asking.ask(LONG, lane="live", model=CHEAPER, budget={"task": 0.003})
    assert task["state"] == "done"
    assert [call.model for call in asking.calls()] == ["claude-3-haiku-20240307"]
    assert _asked(asking) == []


def test_an_agent_changes_to_a_cheaper_model_of_another_provider(asking: AskingHouse) -> None:
    stated: Any = {"lane": "live", "model": {"use": CLAUDE, "cheaper": "openai:gpt-5-nano"}, "limits": {"tokens": 100}}
    counts = agent('Count for NAME. sim:{"length": 100}')
    first, second = [asking.ask(counts, name=name, budget={"day": 0.0006}, **stated) for name in "ab"]
    assert (first["state"], second["state"]) == ("done", "done")
    assert [(call.status, call.provider, call.model) for call in asking.calls(second["id"])] == [
        ("diverted", "anthropic", "openai:gpt-5-nano"), ("done", "openai", "gpt-5-nano"),
    ]  # fmt: skip
    assert asking.meter()["by"] == {"anthropic/live": 1, "openai/live": 1}


def test_a_plain_client_cannot_speak_to_another_provider_and_keeps_its_model(asking: AskingHouse) -> None:
    stated: Any = {"lane": "live", "model": {"use": CLAUDE, "cheaper": "openai:gpt-5-nano"}, "budget": {"day": 0.012}}
    for name in "abc":
        asking.ask(LONG, name=name, **stated)
    assert [task.state for task in asking.tasks()] == ["done", "done", "waiting"]
    assert {(call.provider, call.model) for call in asking.calls()} == {("anthropic", "claude-haiku-4-5")}


def test_a_model_that_the_code_chose_itself_is_kept(asking: AskingHouse) -> None:
    stated: Any = {"lane": "live", "model": CHEAPER, "budget": {"day": 0.02}}
    for name in "ab":
        asking.ask(asks('Count for NAME. sim:{"length": 1000}', model="claude-sonnet-4-6"), name=name, **stated)
    assert {call.model for call in asking.calls()} == {"claude-sonnet-4-6"}


def test_a_question_without_a_limit_of_tokens_is_given_one(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        client = AsyncOpenAI(http_client=desk.http_client())
        said = await client.responses.create(model="gpt-5-mini", input='Count. sim:{"length": 20000}')
        return said.status

    asking.set(model={"output_tokens": 700})
    first = asking.ask(body, name="a", lane="live")
    assert (first["result"], asking.calls()[0].request["max_output_tokens"]) == ("incomplete", 700)
    assert asking.calls()[0].output_tokens == 700
    asking.ask(body, name="b", lane="live", limits={"tokens": 50})
    assert asking.calls()[1].output_tokens == 50


def test_a_playbooks_limit_of_tokens_holds_whatever_its_code_asks_for(asking: AskingHouse) -> None:
    asking.ask(LONG, lane="live", limits={"tokens": 60})
    [call] = asking.calls()
    assert (call.request["max_tokens"], call.output_tokens) == (60, 60)


@pytest.mark.parametrize("stated", [{}, {"limits": {"turns": 4}}])
def test_turns_are_limited(asking: AskingHouse, stated: dict[str, Any]) -> None:
    asking.set(model={"turns": 4 if not stated else 50})
    task = asking.ask(asks(*[f"Question {number}" for number in range(9)]), lane="live", **stated)
    assert (task["state"], asking.meter()["executions"]) == ("dead", 4)
    assert task["error"]["message"] == "The task has asked models 4 times, which is its limit of turns."


def test_the_time_of_a_task_is_limited_while_it_asks(asking: AskingHouse) -> None:
    """The request that was under way may be billed, so that it counts as spent, once it cannot be answered any more."""
    asking.set(model={"timeout_seconds": 60, "flex_minutes": 1})
    asking.fault("hang", seconds=30, times=1)
    asking.have(LONG, lane="live", limits={"time": 2})
    task_id = asking.submit("job", {"name": "a"}).id
    asking.run_all()
    task = asking.task(task_id)
    assert (task["state"], task["error"]["class"]) == ("dead", "overrun")
    assert _sums(asking)["day"][0] > 5000
    asking.pass_time(120)
    asking.sweep()
    reserved, spent = _sums(asking)["day"]
    assert (reserved, spent > 5000) == (0, True)
    [call] = asking.calls()
    assert (call.status, call.reserved_micros, call.cost_usd) == ("failed", 0, Decimal(spent) / 1_000_000)
    assert asking.task(task_id)["cost_usd"] == f"{call.cost_usd:f}"


def test_an_answer_to_a_worker_that_lost_its_task_is_not_counted_twice(asking_anywhere: AskingHouse) -> None:
    """It was thought dead, so that its request counts as spent, and another worker has sent it again."""
    asking = asking_anywhere
    asking.have(asks("Say NAME."), lane="live")
    asking.submit("job", {"name": "a"})
    [leg] = asking.due()
    asking.fault("hang", seconds=1, times=1)
    asyncio.run(_overtaken(asking, leg))
    [call] = asking.calls()
    reserved, spent = _sums(asking)["day"]
    assert (call.status, call.attempt, reserved) == ("done", 2, 0)
    assert Decimal(spent) / 1_000_000 == call.cost_usd > Decimal(asking.meter()["cost_usd"])


def test_a_task_that_was_cancelled_sends_nothing_any_more(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False})
    asking.have(LONG, lane="batch")
    first, second = [asking.submit("job", {"name": name}).id for name in "ab"]
    asking.run_all()
    assert _sums(asking)["day"][0] > 5000
    cancel(asking.house, first, actor="test")
    asking.sweep()
    asking.settle()
    assert [asking.state(task) for task in (first, second)] == ["cancelled", "done"]
    assert asking.meter()["executions"] == 1
    assert _sums(asking)["day"][0] == 0
    assert {call.status for call in asking.calls(first)} == {"failed"}


PREFIX = " ".join(f"Rule {number}: be brief about topic {number}." for number in range(200))


async def _claude_with_a_cache(order: Any, desk: Desk) -> Any:
    """Three questions about one text, which the first writes to the cache, for five minutes or an hour."""
    client = AsyncAnthropic(http_client=desk.http_client(), timeout=None)
    for number in range(3):
        kept: Any = {"type": "ephemeral"} | ({"ttl": "1h"} if order.name.endswith("hour") else {})
        system: Any = [{"type": "text", "text": f"For {order.name}. {PREFIX}", "cache_control": kept}]
        messages: Any = [{"role": "user", "content": f"Question {number} of {order.name}"}]
        await client.messages.create(model="claude-haiku-4-5", max_tokens=200, system=system, messages=messages)


async def _gpt(order: Any, desk: Desk) -> Any:
    client = AsyncOpenAI(http_client=desk.http_client())
    for number in range(3):
        asked = f"For {order.name}. {PREFIX} Question {number}"
        await client.responses.create(model="gpt-5-mini", input=asked, max_output_tokens=200)


async def _gemini(order: Any, desk: Desk) -> Any:
    options = types.HttpOptions(httpx_async_client=desk.http_client())
    client = genai.Client(vertexai=False, http_options=options)
    for number in range(3):
        asked = f"For {order.name}. {PREFIX} Question {number}"
        await client.aio.models.generate_content(model="gemini-2.5-flash", contents=asked)


@pytest.mark.parametrize(
    ("body", "provider", "name", "lane"),
    [
        (_claude_with_a_cache, "anthropic", "minutes", "live"),
        (_claude_with_a_cache, "anthropic", "hour", "live"),
        (_claude_with_a_cache, "anthropic", "minutes", "batch"),
        (_claude_with_a_cache, "anthropic", "hour", "batch"),
        (_gpt, "openai", "a", "live"),
        (_gpt, "openai", "a", "flex"),
        (_gpt, "openai", "a", "batch"),
        (_gemini, "gemini", "a", "live"),
        (_gemini, "gemini", "a", "flex"),
        (_gemini, "gemini", "a", "batch"),
    ],
)
def test_costs_and_savings_are_right_to_the_millionth(
    asking: AskingHouse, body: Body, provider: str, name: str, lane: str
) -> None:
    asking.set(waves={"canary": False})
    asking.simulator.behaviour.cache_hit_rate = 1.0
    task = asking.ask(body, name=name, lane=lane)
    calls = asking.calls()
    bill = {item["id"]: item for item in asking.simulator.report(items=True)["items"]}
    assert [call.lane for call in calls] == [lane] * 3
    assert len(bill) == 3
    for call in calls:
        item = bill[identity(provider, call.request | {"model": call.model})]
        tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        assert [getattr(call, kind) for kind in tokens] == [item[kind] for kind in tokens]
        assert call.cost_usd == _in_millionths(Decimal(item["cost_usd"]))
        assert call.saved_usd == _in_millionths(_live_price(item) - Decimal(item["cost_usd"]))
    assert calls[2].cache_read_tokens > 0 or provider == "gemini"
    assert bool(calls[0].cache_write_tokens) == (provider == "anthropic")
    assert (calls[0].saved_usd > 0) == (lane != "live")
    total = sum(call.cost_usd for call in calls)
    assert task["cost_usd"] == f"{total:f}"
    assert _sums(asking)["day"] == (0, total * 1_000_000)


def _in_millionths(dollars: Decimal) -> Decimal:
    return dollars.quantize(Decimal("0.000001"), ROUND_CEILING)


def _live_price(item: dict[str, Any]) -> Decimal:
    """Claude's batches are half of everything; the others write to their caches for nothing."""
    if item["lane"] == "live":
        return Decimal(item["cost_usd"])
    if item["provider"] == "anthropic":
        return Decimal(item["cost_usd"]) * 2
    spent = Spent(item["input_tokens"], item["output_tokens"], item["cache_read_tokens"])
    return price(item["provider"], item["model"], "live", spent)
