"""What a night costs next to the same agents asking live, by the prices and the caches of the simulator."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from anthropic import AsyncAnthropic

from bench.figures import Figure, at_most
from bench.place import Place, Sizes, Tell
from nightdesk.clock import SetClock
from nightdesk.house import open_house
from nightdesk.model.simulator import Behaviour, Simulator, environment, running
from nightdesk.work import Desk
from tests.model.asking import START, AskingHouse
from tests.model.questions import asks

_TURNS = 10
# About 6,000 tokens that all turns of all agents begin with, marked for the cache.
_HANDBOOK = "How the shop writes, and what it never says. " * 540
_SYSTEM: Any = [{"type": "text", "text": _HANDBOOK, "cache_control": {"type": "ephemeral"}}]
_LOOK_UP: Any = {
    "name": "look_up",
    "description": "Look something up.",
    "input_schema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
}


def nights(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """Of single questions the second night, when their form is known; of agents the first two together."""
    tell(f"nights of {sizes.agents} agents, in fast time")
    plain, looping = asks("Write about NAME, in some sentences."), _agent
    short = {lane: _costs(place, plain, lane, sizes.agents * 4)[1] for lane in ("auto", "live")}
    long = {lane: sum(_costs(place, looping, lane, sizes.agents)) for lane in ("auto", "live", "batch")}
    return [
        Figure("cost of a night of single questions, of live", _share(short, "live"), at_most(0.5)),
        Figure(
            "· of ten-turn agents, of the best single lane",
            _share(long, min(("live", "batch"), key=lambda lane: long[lane])),
            at_most(1),
        ),
    ]


def _share(costs: Mapping[str, Decimal | int], of: str) -> float:
    return float(costs["auto"] / costs[of])


async def _agent(order: Any, desk: Desk) -> Any:
    """An agent's loop as the documentation of the API has it."""
    script = f'Find out all about {order.name}. sim:{{"turns": {_TURNS - 1}}}'
    messages: list[Any] = [{"role": "user", "content": script}]
    async with desk.http_client() as http:
        client = AsyncAnthropic(http_client=http, timeout=None)
        while True:
            answer = await client.messages.create(
                model="claude-haiku-4-5", max_tokens=500, system=_SYSTEM, tools=[_LOOK_UP], messages=messages
            )
            if answer.stop_reason != "tool_use":
                return {"turns": len(messages) // 2 + 1}
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": f"Known of {order.name}: much."}
                for block in answer.content
                if block.type == "tool_use"
            ]
            messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]


def _costs(place: Place, body: Any, lane: str, count: int) -> list[Decimal]:
    """What each of two nights costs, by the provider's own bill."""
    costs = []
    with _house(place) as asking:
        for night in ("first", "second"):
            asking.simulator.meter.clear()
            asking.have(body, lane=lane)
            for number in range(count):
                asking.submit("job", {"name": f"{night}-{number}"})
            asking.settle(rounds=600)
            costs.append(Decimal(str(asking.meter()["cost_usd"])))
        if any(task.state != "done" for task in asking.tasks()):
            raise RuntimeError("Not every agent has ended.")
    return costs


@contextmanager
def _house(place: Place) -> Iterator[AskingHouse]:
    with (
        place.scene() as scene,
        running(Simulator(Behaviour(batch_seconds=600))) as providers,
        patch.dict(os.environ, environment(providers.url)),
    ):
        clock = SetClock(START)
        house = open_house(scene.house.home, clock=clock)
        asking = AskingHouse(house, clock, providers)
        try:
            yield asking
        finally:
            asking.close_room()
            house.close()
