"""Calls, budgets, breakers, the simulator and rehearsals, from the terminal."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic

from nightdesk.clock import SystemClock
from nightdesk.house import open_house
from nightdesk.model.simulator import Behaviour, Simulator, environment, running
from tests.cli.conftest import Terminal
from tests.model.asking import AskingHouse, SharedClock
from tests.support.playbooks import write_yaml
from tests.support.processes import Processes, Running, wait_until

LISTING = """
name: listing
when: now
input: {asin: string}
output: {title: string}
key: "{asin}"
model: anthropic:claude-haiku-4-5
lane: live
budget: {day: 0.003}
limits: {tokens: 300}
instructions: Write a title.
"""


@pytest.fixture
def worker(nightdesk: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskingHouse]:
    """One that works in the terminal's house when it is told to."""
    write_yaml(nightdesk.home, LISTING, folder="listing")
    with running(Simulator(Behaviour(batch_seconds=10))) as served:
        for name, value in environment(served.url).items():
            monkeypatch.setenv(name, value)
        clock = SharedClock(SystemClock().now(), served.simulator)
        house = open_house(nightdesk.home, clock=clock)
        asking = AskingHouse(house, clock, served)
        yield asking
        asking.close_room()
        house.close()


def _work(asking: AskingHouse, *names: str) -> list[str]:
    ids = [asking.submit("listing", {"asin": name}).id for name in names]
    asking.run_all()
    return [asking.state(task) for task in ids]


def test_where_nothing_was_asked_yet_it_says_so(nightdesk: Terminal) -> None:
    assert nightdesk("calls").out == "No model was asked.\n"
    assert nightdesk("budget", "list").out == "Nothing was paid today, and there is no cap.\n"
    assert nightdesk("breaker", "list").out == "No provider has failed.\n"
    assert nightdesk("calls", "--json").json == {"items": []}
    assert "There is no house in" in nightdesk.refuses("calls", env={"NIGHTDESK_HOME": str(nightdesk.home / "none")})


def test_calls(nightdesk: Terminal, worker: AskingHouse) -> None:
    assert _work(worker, "B001", "B002") == ["review", "review"]
    first, second = nightdesk("calls", "--json").json["items"]
    assert {first["task_id"], second["task_id"]} == {str(task.id) for task in worker.tasks()}
    assert set(first) >= {"id", "model", "lane", "lane_reason", "batch_id", "cost_usd", "saved_usd", "input_tokens"}
    assert (first["playbook"], first["provider"], first["lane"]) == ("listing", "anthropic", "live")
    assert (first["status"], first["cost_usd"][:5], first["reserved_usd"]) == ("done", "0.000", "0.000000")
    assert "the playbook asks for it" in nightdesk("calls").out
    assert len(nightdesk("calls", "--task", first["task_id"], "--lane", "live", "--json").json["items"]) == 1
    assert nightdesk("calls", "--lane", "batch", "--playbook", "listing").out == "No model was asked.\n"
    assert "there may be more: --limit" in nightdesk("calls", "--limit", "1").err


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--lane", "bach", 'lane: "bach" is none; did you mean "batch"?'),
        ("--provider", "antropic", 'provider: "antropic" is none; did you mean "anthropic"?'),
        ("--playbook", "dril", 'did you mean "drill"'),
        ("--task", "nothing", "There is no task nothing."),
    ],
)
def test_calls_that_cannot_be(nightdesk: Terminal, option: str, value: str, told: str) -> None:
    assert told in nightdesk.refuses("calls", option, value)


def test_a_budget_is_raised_and_what_waited_goes_on(nightdesk: Terminal, worker: AskingHouse) -> None:
    assert _work(worker, "B001") == ["review"]
    listed = nightdesk("budget", "list", "--json").json
    budgets = {budget["scope"]: budget for budget in listed["items"]}
    assert (set(budgets), listed["waiting"]) == ({"day", "playbook"}, 0)
    assert (budgets["playbook"]["limit_usd"], budgets["playbook"]["reserved_usd"]) == ("0.003000", "0.000000")
    spent = budgets["playbook"]["spent_usd"]
    assert spent == worker.task(worker.tasks()[0].id)["cost_usd"]
    raised = nightdesk("budget", "raise", "$2.50", "--playbook", "listing", "--why", "a big day", "--json").json
    assert (raised["raised_usd"], raised["spent_usd"], raised["asked_at"]) == ("2.500000", spent, None)


def test_a_task_that_waits_for_money_is_told_of_and_goes_on(nightdesk: Terminal, worker: AskingHouse) -> None:
    write_yaml(nightdesk.home, LISTING.replace("day: 0.003", "task: 0.0001"), folder="listing")
    worker.house = open_house(nightdesk.home, clock=worker.clock)
    try:
        assert _work(worker, "B001") == ["waiting:budget"]
        task = str(worker.tasks()[0].id)
        answer = nightdesk("budget", "list")
        assert f"task {task}" in answer.out
        assert answer.err == "1 task waits for money. To allow more: nightdesk budget raise DOLLARS --why TEXT\n"
        said = nightdesk("budget", "raise", "0.10", "--task", task, "--why", "it is worth it").out
        assert said == f"The budget of task {task} is $0.1001 now: $0.00 is spent, $0.00 reserved, $0.1001 left.\n"
        worker.settle()
        assert worker.state(task) == "review"
    finally:
        worker.house.close()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("5",), 1, "The budget of the day"),
        (("five",), 2, '"five" is no amount of dollars'),
        (("0", "--night"), 1, "dollars: must be more than 0"),
        (("5", "--tenant", "acme"), 1, 'There is no tenant "acme"'),
        (("5", "--night", "--playbook", "drill"), 2, "Name one budget."),
    ],
)
def test_budgets_that_cannot_be_raised(nightdesk: Terminal, arguments: tuple[str, ...], code: int, told: str) -> None:
    settings = nightdesk.home / "nightdesk.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + '\n[budget]\nnight = "5.00"\n', encoding="utf-8")
    said = nightdesk.refuses("budget", "raise", *arguments, "--why", "x", code=code)
    assert told in " ".join(said.replace("│", " ").split())


def test_a_latched_breaker_is_reset_and_what_waited_goes_on(nightdesk: Terminal, worker: AskingHouse) -> None:
    worker.fault("auth", times=1)
    assert _work(worker, "B001") == ["waiting:breaker"]
    answer = nightdesk("breaker", "list")
    assert "latched" in answer.out
    assert "nightdesk breaker reset anthropic --why TEXT" in answer.err
    assert 'did you mean "anthropic"' in nightdesk.refuses("breaker", "reset", "antropic", "--why", "x")
    assert "why: is empty" in nightdesk.refuses("breaker", "reset", "anthropic", "--why", " ")
    reset = nightdesk("breaker", "reset", "anthropic", "--why", "a new key", "--json").json["reset"]
    assert [(breaker["provider"], breaker["state"]) for breaker in reset] == [("anthropic", "latched")]
    assert "nothing was done" in nightdesk("breaker", "reset", "anthropic:*", "--why", "again").err
    worker.settle()
    assert worker.tasks()[0].state == "review"
    assert nightdesk("breaker", "list", "--json").json["items"][0]["state"] == "closed"


def _simulator(processes: Processes, home: Path, *arguments: str) -> tuple[Running, dict[str, str]]:
    """A running one, and the variables that it says to set."""
    started = processes.start(home, "simulator", "--port", "0", *arguments)
    wait_until(lambda: "The simulator is running." in started.output(), 30, "the simulator runs")
    told = [line.removeprefix("export ") for line in started.output().splitlines() if line.startswith("export ")]
    return started, dict(line.split("=", 1) for line in told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_simulator_runs_until_it_is_stopped(processes: Processes, tmp_path: Path, number: signal.Signals) -> None:
    simulator, told = _simulator(processes, tmp_path, "--latency", "0")
    with Anthropic(base_url=told["ANTHROPIC_BASE_URL"], api_key=told["ANTHROPIC_API_KEY"], max_retries=0) as client:
        asked: Any = [{"role": "user", "content": "Hello"}]
        answer = client.messages.create(model="claude-haiku-4-5", max_tokens=50, messages=asked)
    assert answer.content[0].type == "text"
    meter = httpx2.get(f"{told['ANTHROPIC_BASE_URL']}/meter").json()
    assert (meter["executions"], meter["repeated"], meter["by"]) == (1, 0, {"anthropic/live": 1})
    os.kill(simulator.pid, number)
    assert simulator.wait(20) == 0
    assert "Traceback" not in simulator.output()


def test_the_simulator_says_when_its_port_is_taken(nightdesk: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"Cannot listen on 127.0.0.1:{port}: Address already in use." in nightdesk.refuses(
            "simulator", "--port", port
        )


def test_a_rehearsal(nightdesk: Terminal) -> None:
    text = LISTING.replace("when: now", "when: night\nrisk: internal").replace("lane: live", "lane: auto")
    write_yaml(nightdesk.home, text.replace("budget: {day: 0.003}\n", ""), folder="listing")
    assert "Nothing is open that could be rehearsed." in nightdesk.refuses("rehearse")
    (nightdesk.home / "asins.jsonl").write_text('{"asin": "B001"}\n{"asin": "B002"}\n', encoding="utf-8")
    nightdesk("add", "listing", "--file", "asins.jsonl")
    before = nightdesk("tasks", "list", "--json").json
    answer = nightdesk("rehearse", "--json")
    assert (answer.json["tasks"], answer.json["calls"]) == ({"done": 2}, {"batch": 1, "live": 1})
    assert (answer.json["paid_twice"], answer.json["not_done"]) == (0, [])
    assert "Providers are simulated." in answer.err
    said = nightdesk("rehearse", "2030-01-31", "--fault", "auth", "--batch-minutes", "5", "--limit", "1").out
    assert said.startswith("From 2030-02-01 01:00 UTC to 2030-02-01 01:00 UTC, in ")
    assert "1 waiting for breaker" in said
    assert "breaker latched: HTTP 401" in said
    assert nightdesk("tasks", "list", "--json").json == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--fault", "stuk"), 'stuk: is none; did you mean "stuck"?'),
        (("2020-01-01",), "2020-01-01: has passed"),
        (("--playbook", "dril"), 'did you mean "drill"'),
    ],
)
def test_rehearsals_that_cannot_be(nightdesk: Terminal, arguments: tuple[str, ...], told: str) -> None:
    answer = nightdesk("rehearse", *arguments, code=1)
    assert told in answer.err
