"""Real workers that ask models: a house with playbooks for each provider, and a simulator whose meter is the bill."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.clock import SystemClock
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit_in
from nightdesk.model.simulator import Behaviour, Simulator, environment, running
from nightdesk.store import batches, budgets, calls, events, tasks
from nightdesk.work.insight import count_states
from tests.conftest import make_house_folder
from tests.support.processes import Processes, Running, wait_until

PROVIDERS = ("anthropic", "openai", "google")
KILLED = -9
# What the simulator calls them.
METERED_AS = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}

# Batches are asked after all the time, and are free soon after the death of the worker that holds them. In the house's
# time zone it is noon, so that no day ends during a test.
_QUICK = """
[worker]
lease_seconds = 3
[waves]
poll_seconds = 0.2
canary = false
{waves}
[night]
zone = "{zone}"
"""
_PLAYBOOKS = '''
import json
import os

from nightdesk import playbook

KEY = "simulated"
FILLING = 1023 * "x" + " "


def _of(provider, text, most):
    said = [{"role": "user", "content": text}]
    match provider:
        case "anthropic":
            headers = {"x-api-key": KEY, "anthropic-version": "2026-10-21"}
            body = {"model": "claude-haiku-4-5", "max_tokens": most, "messages": said}
            return os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", headers, body
        case "openai":
            body = {"model": "gpt-5-mini", "max_completion_tokens": most, "messages": said}
            return os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"authorization": f"Bearer {KEY}"}, body
    url = os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/gemini-2.5-flash:generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": said[0]["content"]}]}],
            "generationConfig": {"maxOutputTokens": most}}
    return url, {"x-goog-api-key": KEY}, body


def _text(provider, answer):
    match provider:
        case "anthropic":
            return answer["content"][0]["text"]
        case "openai":
            return answer["choices"][0]["message"]["content"]
    return answer["candidates"][0]["content"]["parts"][0]["text"]


def _define(provider, lane):
    @playbook(
        f"{provider}-{lane}",
        input={"name": "string", "turns": "int", "kilobytes": "int", "length": "int"},
        key="{name}",
        when="now",
        risk="internal",
        lane=lane,
    )
    async def ask(order, desk):
        """Each turn asks about the answer to the one before."""
        said = "Nothing was said before."
        async with desk.http_client() as client:
            for turn in range(order.turns):
                answer = f"the answer to {order.name}, turn {turn}"
                wanted = json.dumps({"length": order.length} if order.length else {"text": answer})
                text = f"{order.name}: {said} {order.kilobytes * FILLING} sim:{wanted}"
                url, headers, body = _of(provider, text, order.length + 200)
                answer = await client.post(url, headers=headers, json=body)
                answer.raise_for_status()
                said = _text(provider, answer.json())
        return said


for _provider in ("anthropic", "openai", "google"):
    for _lane in ("batch", "live"):
        _define(_provider, _lane)
'''


@dataclass
class AskingScene:
    house: House
    simulator: Simulator
    url: str
    processes: Processes

    def worker(self, failpoint: str = "", **settings: str) -> Running:
        """A worker; settings as NIGHTDESK_… without the prefix, in lower case. It dies at the failpoint, which is a
        place and a provider: `batch-created:openai`."""
        env = {f"NIGHTDESK_{name.upper()}": value for name, value in settings.items()}
        if failpoint:
            env["NIGHTDESK_FAILPOINT"] = failpoint
        return self.processes.start(self.house.home, "worker", env={**environment(self.url), **env})

    def add(
        self, playbook: str, names: Iterable[str], turns: int = 1, kilobytes: int = 0, length: int = 0
    ) -> list[str]:
        """Submit a task for each name, in one transaction; the answer is their ids. So many kilobytes are asked, and so
        many tokens answered if that is stated."""
        stated: dict[str, Json] = {"turns": turns, "kilobytes": kilobytes, "length": length}
        with self.house.db.write() as conn:
            orders = [Submission(playbook, {"name": name, **stated}) for name in names]
            return [submit_in(self.house, conn, order, actor="test").id for order in orders]

    def wait_for(self, states: dict[str, int], timeout: float = 60) -> None:
        try:
            wait_until(lambda: count_states(self.house) == states, timeout, f"the tasks are {states}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}. They are {self.waiting()}, and the bill is {self.simulator.report()}"
            ) from None

    def waiting(self) -> dict[str, int]:
        """How many tasks are in each state, and those that wait by what for."""
        query = sa.select(tasks.c.state, tasks.c.waiting_for)
        return dict(Counter(f"{state}:{what}" if what else state for state, what in self.read(query)))

    def read(self, query: Any) -> list[Any]:
        with self.house.db.read() as conn:
            return list(conn.execute(query))

    def calls(self) -> list[Any]:
        return self.read(sa.select(calls))

    def meter(self) -> dict[str, Any]:
        """The bill: its sums, and under `items` each request with its executions in each lane."""
        return self.simulator.report(items=True)

    def batches_at(self, provider: str) -> set[str]:
        """The ids of all batches that the provider has made."""
        prefix = "batches/" if provider == "google" else ""
        return {prefix + batch.id for batch in self.simulator.shelf.all(METERED_AS[provider])}

    def causes(self, kind: str) -> list[str]:
        query = sa.select(events.c.cause).where(events.c.kind == kind).order_by(events.c.id)
        return [row.cause for row in self.read(query)]

    def spent_micros(self) -> int:
        """What the accounts of the day say. Nothing may be reserved any more."""
        reserved = self.read(sa.select(budgets.c.scope, budgets.c.name).where(budgets.c.reserved_micros != 0))
        held = self.read(sa.select(calls.c.id).where(calls.c.reserved_micros != 0))
        assert (reserved, held) == ([], []), "something is still reserved"
        [(spent,)] = self.read(sa.select(budgets.c.spent_micros).where(budgets.c.scope == "day"))
        return int(spent)

    def assert_batches_known(self) -> None:
        """Each of the providers' batches is that of one row: none was sent again and none forgotten."""
        wait_until(lambda: not self.read(sa.select(batches.c.id).where(batches.c.ended_at.is_(None))), 60, "all ended")
        rows = self.read(sa.select(batches.c.provider, batches.c.provider_id))
        for provider in PROVIDERS:
            assert {row.provider_id for row in rows if row.provider == provider} == self.batches_at(provider)

    def assert_paid(self) -> None:
        """The day's accounts are what the calls cost. That is the bill, to a millionth for each call, and perhaps more
        for calls that were lost with their worker, as they count at their worst case."""
        costs = {row.id: int(row.cost_usd * 1_000_000) for row in self.read(sa.select(calls.c.id, calls.c.cost_usd))}
        lost = {row.detail["call"] for row in self.read(sa.select(events.c.detail).where(events.c.kind == "call"))}
        bill, spent = Decimal(self.meter()["cost_usd"]) * 1_000_000, self.spent_micros()
        assert spent == sum(costs.values())
        assert bill <= spent <= bill + len(costs) + sum(costs[call] for call in lost)


@contextmanager
def asking_scene(folder: Path, url: str, *, wave: int = 0, stated: str = "", **behaviour: Any) -> Iterator[AskingScene]:
    """A house with the playbooks `anthropic-batch`, `anthropic-live` and so on, and a simulator for its workers.

    A wave leaves when it has so many calls; with none stated, when some time has passed. `stated` is added to
    nightdesk.toml; `behaviour` is the simulator's."""
    make_house_folder(folder, url)
    waves = f"settle_seconds = 600\nmost_items = {wave}" if wave else "settle_seconds = 0.2"
    noon = f"Etc/GMT{SystemClock().now().hour - 12:+d}"
    with (folder / "nightdesk.toml").open("a", encoding="utf-8") as file:
        file.write(_QUICK.format(waves=waves, zone=noon) + stated)
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "asking.py").write_text(_PLAYBOOKS, encoding="utf-8")
    (folder / "logs").mkdir()
    with running(Simulator(Behaviour(**behaviour))) as served, ExitStack() as stack:
        processes = Processes(folder / "logs")
        stack.callback(processes.close)
        house = open_house(folder)
        stack.callback(house.close)
        yield AskingScene(house, served.simulator, served.url, processes)
