"""Pydantic AI, unchanged: agents on desk.model() and on a user's own provider answer as they do without Nightdesk."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.capabilities import BatchModelRequests
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

from nightdesk.guard import breakers
from nightdesk.work import Desk
from tests.model.asking import CLAUDE, GEMINI, GPT, AskingHouse, answers_alike
from tests.support.hand import Body

_NAMES = (CLAUDE, GPT, GEMINI)


class Town(BaseModel):
    name: str
    people: int


def weather(town: str) -> str:
    """The weather in a town."""
    return f"sunny in {town}"


def _with_tools(name: str) -> Body:
    """Two turns with two tools at once, and then the result in its form."""

    async def body(order: Any, desk: Desk) -> Any:
        agent = Agent(desk.model(name), output_type=Town, tools=[desk.tool(weather)])
        result = await agent.run('name: Lund, people: 94000 sim:{"turns":2,"parallel":2}')
        parts = [part for message in result.all_messages() for part in message.parts]
        returned = [part.content for part in parts if part.part_kind == "tool-return"]
        usage = result.usage
        return {"output": result.output, "returned": returned, "usage": (usage.requests, usage.output_tokens)}

    return body


def _streamed(name: str) -> Body:
    async def body(order: Any, desk: Desk) -> Any:
        agent = Agent(desk.model(name), tools=[desk.tool(weather)])
        async with agent.run_stream("The weather in Lund?") as result:
            texts = [text async for text in result.stream_text()]
        kinds, output = set(), ""
        async with agent.run_stream_events('The weather in Malmö? sim:{"parallel":2}') as events:
            async for event in events:
                kinds.add(event.event_kind.replace("part_delta", "part_start"))  # in how many pieces is not said
                if event.event_kind == "agent_run_result":
                    output = event.result.output
        return {"text": texts[-1], "kinds": sorted(kinds), "output": output}

    return body


def _anthropic(desk: Desk) -> Model:
    return AnthropicModel("claude-haiku-4-5", provider=AnthropicProvider(http_client=desk.http_client()))


def _openai(desk: Desk) -> Model:
    return OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(http_client=desk.http_client()))


def _google(desk: Desk) -> Model:
    return GoogleModel("gemini-2.5-flash", provider=GoogleProvider(http_client=desk.http_client()))


def _with_a_provider_of_its_own(make: Any) -> Body:
    async def body(order: Any, desk: Desk) -> Any:
        agent = Agent(make(desk), output_type=Town, tools=[weather])
        result = await agent.run('name: Lund, people: 94000 sim:{"parallel":2}')
        async with Agent(make(desk)).run_stream("Write about Lund, please") as streamed:
            text = await streamed.get_output()
        return {"output": result.output, "text": text}

    return body


@pytest.mark.parametrize("name", _NAMES)
def test_an_agent_with_parallel_tools_and_structured_output(asking: AskingHouse, name: str) -> None:
    calls = answers_alike(asking, _with_tools(name))
    assert [(call.position, call.tools) for call in calls] == [
        (number, ["weather", "final_result"]) for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("name", _NAMES)
def test_streams(asking: AskingHouse, name: str) -> None:
    assert len(answers_alike(asking, _streamed(name))) == 4


@pytest.mark.parametrize("make", [_anthropic, _openai, _google])
def test_a_provider_of_the_users_own(asking: AskingHouse, make: Any) -> None:
    assert len(answers_alike(asking, _with_a_provider_of_its_own(make))) == 3


@pytest.mark.parametrize("lane", ["live", "batch"])
def test_an_agent_in_a_plain_function_with_a_loop_of_its_own(asking: AskingHouse, lane: Any) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        def ask(town: str) -> str:
            agent = Agent(desk.model(CLAUDE), tools=[weather])
            return asyncio.run(agent.run(f"The weather in {town}?")).output

        return await desk.step("ask", ask, "Lund")

    asking.set(waves={"canary": False})
    task = asking.ask(body, lane=lane)
    assert "sunny in" in str(task["result"])
    assert [(call.status, call.step, call.lane) for call in asking.calls()] == [("done", "ask#1", lane)] * 2
    assert asking.divergences() == []


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("lane", ["live", "batch"])
def test_the_sum_of_costs_in_the_agent_is_what_was_paid(asking: AskingHouse, name: str, lane: Any) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        result = await Agent(desk.model(name), tools=[weather]).run("The weather in Lund?")
        return str(result.usage.cost)

    asking.set(waves={"canary": False})
    task = asking.ask(body, lane=lane)
    paid = sum((call.cost_usd for call in asking.calls()), Decimal(0))
    assert asking.lanes() == [lane, lane]
    assert paid
    assert abs(Decimal(str(task["result"])) - paid) <= len(asking.calls()) * Decimal("0.000001")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (None, "names no model"),
        ("claude-haiku-4-5", "provider:name"),
        ("mistral:large", "Those there are: anthropic, openai, google."),
        (GPT, "Set OPENAI_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_had(
    asking: AskingHouse, monkeypatch: pytest.MonkeyPatch, name: str | None, why: str
) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        return desk.model(name).model_name

    monkeypatch.delenv("OPENAI_API_KEY")
    task = asking.ask(body, limits={"retries": 0})
    assert task["state"] == "dead"
    assert why in str(task["error"])


def _batching(desk: Desk) -> Agent[None, str]:
    return Agent(desk.model(GPT), capabilities=[BatchModelRequests(max_requests=1)])


def _batching_on_its_own(desk: Desk) -> Agent[None, str]:
    return Agent(_anthropic(desk), capabilities=[BatchModelRequests(max_requests=1)])


def _over_a_websocket(desk: Desk) -> Agent[None, str]:
    settings: Any = {"openai_transport": "websocket"}
    return Agent(desk.model(GPT), model_settings=settings)


@pytest.mark.parametrize(
    ("make", "why"), [(_batching, "BatchModelRequests"), (_over_a_websocket, "openai_transport")], ids=["batch", "ws"]
)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_goes_past_the_journal_is_refused_at_once(
    asking: AskingHouse, make: Any, why: str, streamed: bool
) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        if not streamed:
            return (await make(desk).run("Write about Lund")).output
        async with make(desk).run_stream("Write about Lund") as result:
            return await result.get_output()

    task = asking.ask(body)
    assert task["state"] == "dead"
    assert why in str(task["error"])
    assert asking.meter()["executions"] == 0


def test_batches_of_its_own_are_refused_on_a_provider_of_the_users_own_too(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        return (await _batching_on_its_own(desk).run("Write about Lund")).output

    task = asking.ask(body, limits={"retries": 0})
    assert task["state"] == "dead"
    assert "batching" in str(task["error"])
    assert asking.meter()["executions"] == 0


def test_a_deadline_of_the_agents_own_is_warned_of(asking: AskingHouse, capsys: pytest.CaptureFixture[str]) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        return (await Agent(desk.model(GPT), model_settings={"request_timeout": 600}).run("Write about Lund")).output

    assert asking.ask(body)["state"] == "done"
    assert "request_timeout" in capsys.readouterr().err


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", ["live", "batch"])
def test_an_agent_changes_to_the_fallback_of_another_provider(asking: AskingHouse, streamed: bool, lane: Any) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        agent = Agent(desk.model(), output_type=Town, tools=[weather])
        prompt = 'name: Lund, people: 94000 sim:{"parallel":2}'
        if not streamed:
            return (await agent.run(prompt)).output
        async with agent.run_stream(prompt) as result:
            return await result.get_output()

    with asking.house.db.write() as conn:
        breakers.latch(asking.house.db, conn, asking.clock.now(), "anthropic", breakers.ANY, breakers.ANY, "no credit")
    asking.set(waves={"canary": False})
    task = asking.ask(body, model={"use": CLAUDE, "fallback": GPT}, lane=lane)
    assert task["result"] == {"name": "[simulated] Lund", "people": 94000}
    assert [(call.status, call.model) for call in asking.calls()] == [("diverted", GPT), ("done", "gpt-5-mini")] * 2
    assert asking.meter()["by"] == {f"openai/{lane}": 2}
    assert asking.divergences() == []
