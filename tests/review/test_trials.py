"""Launch tests, as a user runs them and as they are kept; and that they leave the house as it was."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import NightdeskError, NotFound
from nightdesk.house import House, open_house
from nightdesk.model.simulator import Fault, Running
from nightdesk.playbook import load_registry
from nightdesk.playbook.golden import read_golden
from nightdesk.review.trials import Trial, try_out
from nightdesk.store import budgets, calls, drafts, events, tasks, trials
from tests.support.playbooks import write_yaml

SHIPPED = ["blog-draft", "competitor-scan", "listing-rewrite", "review-sentiment"]
YAML = """\
name: small
when: now
risk: internal
input: {name: string, fail: {one_of: [bug, person, slow], default: null}}
output: {title: string}
run: run.py:work
gates: [{length: {field: title, max: 8}}]
limits: {retries: 0}
golden: golden.jsonl
bar: {rate: 0.5, cases: 2}
"""
RUN = """\
from nightdesk import AskPerson


async def work(order, desk):
    if order.fail == "bug":
        raise RuntimeError("told to")
    if order.fail == "person":
        raise AskPerson("told to")
    if order.fail == "slow":
        await desk.ask("Really?", ["yes", "no"])
    return {"title": await desk.step("title", make, order.name)}


def make(name: str) -> str:
    return name.upper()
"""


def small(house: House, *cases: dict[str, Any], yaml: str = YAML) -> House:
    """The house, opened with the small playbook and these golden cases."""
    file = write_yaml(house.home, yaml, folder="small", run=RUN)
    file.with_name("golden.jsonl").write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    return open_house(house.home)


def case(name: str, expect: dict[str, Any] | None = None, **input: Any) -> dict[str, Any]:
    return {"name": name, "input": {"name": name, **input}, "expect": expect or {}}


def run(house: House, name: str = "small", cap: str = "5", heard: list[int] | None = None) -> Trial:
    told = [] if heard is None else heard
    return try_out(house, name, cap=Decimal(cap), tell=told.append)


CASES = [
    case("fine", {"equals": {"title": "FINE"}}),
    case("not fine", {"equals": {"title": "fine"}}),
    case("far too long"),
    case("long, expected", {"fails": ["length"]}),
    case("broken", fail="bug"),
    case("broken, expected", {"state": "dead"}, fail="bug"),
    case("asking", {"state": "person"}, fail="person"),
    case("stuck", fail="slow"),
]


def test_each_case_is_a_real_task_and_its_outcome_is_told_with_reasons(sqlite_house: House) -> None:
    opened = small(sqlite_house, *CASES)
    heard: list[int] = []
    trial = run(opened, heard=heard)
    opened.close()
    reasons = {result.name: " / ".join(result.reasons) for result in trial.results if not result.passed}
    assert [result.name for result in trial.results] == [known["name"] for known in CASES]
    assert sorted(heard) == list(range(1, 9))
    assert (trial.passed, trial.rate, trial.is_over_the_bar) == (4, 0.5, True)
    assert reasons["not fine"].startswith('title equals: it is "NOT FINE", not "fine"')
    assert reasons["far too long"].startswith("state: it ended as review and not as done: a draft failed its gates")
    assert "length of title: 12, where at most 8 characters is asked for" in reasons["far too long"]
    assert reasons["broken"] == "state: it ended as dead and not as done: bug: told to"
    assert reasons["stuck"].startswith("state: it ended as waiting and not as done")


def test_what_a_case_hands_on_and_waits_for_is_done_too(sqlite_house: House) -> None:
    leading = (
        RUN
        + """

async def lead(order, desk):
    children = [await desk.emit("small", {"name": f"{order.name}{number}"}) for number in range(3)]
    return {"title": " ".join(result.value["title"] for result in await desk.results(children))}
"""
    )
    yaml = YAML.replace("name: small", "name: lead").replace("run.py:work", "run.py:lead").replace("max: 8", "max: 80")
    small(sqlite_house).close()
    file = write_yaml(sqlite_house.home, yaml, folder="lead", run=leading)
    file.with_name("golden.jsonl").write_text(
        json.dumps(case("a", {"equals": {"title": "A0 A1 A2"}})), encoding="utf-8"
    )
    opened = open_house(sqlite_house.home)
    [result] = run(opened, "lead").results
    opened.close()
    assert (result.passed, result.reasons) == (True, [])


def test_the_house_has_the_trial_on_record_and_nothing_else_of_it(house: House) -> None:
    opened = small(house, *CASES)
    trial = run(opened)
    with opened.db.read() as conn:
        [kept] = conn.execute(sa.select(trials)).all()
        left = [
            conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (tasks, drafts, calls, events)
        ]
    opened.close()
    assert (kept.playbook, kept.playbook_version, kept.cases, kept.passed) == ("small", trial.version, 8, 4)
    assert kept.playbook_version == opened.registry.get("small").version
    assert [line["name"] for line in kept.report] == [known["name"] for known in CASES]
    assert kept.report[1]["reasons"] == trial.results[1].reasons
    assert left == [0, 0, 0, 0]


def test_what_it_costs_is_paid_from_the_budget_of_the_day_alone(sqlite_house: House, providers: Running) -> None:
    trial = run(sqlite_house, "listing-rewrite")
    with sqlite_house.db.read() as conn:
        [row] = conn.execute(sa.select(budgets)).all()
        [kept] = conn.execute(sa.select(trials)).all()
    assert trial.passed == len(trial.results) >= 12
    assert trial.cost_usd == kept.cost_usd > 0
    assert (row.scope, row.reserved_micros) == ("day", 0)
    assert row.spent_micros == trial.cost_usd * 1_000_000


def test_a_day_that_has_too_little_left_refuses_it_before_anything_is_asked(
    sqlite_house: House, providers: Running
) -> None:
    file = sqlite_house.home / "nightdesk.toml"
    file.write_text(file.read_text(encoding="utf-8") + '[budget]\nday = "2.00"\n', encoding="utf-8")
    opened = open_house(sqlite_house.home)
    with pytest.raises(NightdeskError, match=r"The budget of the day .* is \$2\.00"):
        run(opened, "listing-rewrite", cap="2.01")
    assert run(opened, "listing-rewrite", cap="1.50").passed
    opened.close()
    assert providers.simulator.report()["executions"] >= 12


def test_its_own_cap_holds(sqlite_house: House, providers: Running) -> None:
    trial = run(sqlite_house, "blog-draft", cap="0.30")
    assert trial.cost_usd <= Decimal("0.30")
    assert any("waiting" in reason for result in trial.results for reason in result.reasons)
    assert not trial.is_over_the_bar


def test_a_provider_that_falters_is_asked_again_as_in_a_night(sqlite_house: House, providers: Running) -> None:
    providers.simulator.faults.add(Fault("status", "anthropic", times=2, status=529))
    trial = run(sqlite_house, "listing-rewrite")
    assert trial.passed == len(trial.results)


def test_without_a_key_or_a_case_it_says_so_at_once(sqlite_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(NightdeskError, match="There is no key for anthropic"):
        run(sqlite_house, "listing-rewrite")
    with pytest.raises(NotFound, match="Playbook drill has no golden cases"):
        run(sqlite_house, "drill")
    with pytest.raises(NotFound, match='did you mean "drill"'):
        run(sqlite_house, "dril")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_playbook_that_ships_does_its_golden_cases(sqlite_house: House, providers: Running, name: str) -> None:
    """The simulated model copies from what it is given: what is held against the cases is form, gates and facts."""
    trial = run(sqlite_house, name)
    assert {result.name: result.reasons for result in trial.results if not result.passed} == {}
    assert len(trial.results) >= 12
    assert trial.is_over_the_bar
    assert trial.cost_usd > 0


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_is_whole(tmp_path: Path, name: str) -> None:
    book = load_registry(tmp_path).get(name)
    stated = book.definition
    assert len(read_golden(book)) >= 12
    assert len(stated["instructions"].split()) > 200
    assert {gate.name for gate in book.gates} >= {"length", "no_prompt_leak"}
    assert stated["model"].keys() == {"use", "cheaper", "fallback"}
    assert stated["budget"].keys() == {"task", "day"}
    assert stated["release"]["to"] == "folder"
    assert min(len(stated["review"][part]) for part in ("checklist", "reasons")) >= 3
    assert book.bar.cases <= len(read_golden(book))
    assert (book.when.kind, book.output is not None, book.sla_seconds is not None) == ("night", True, True)


def _test(home: Path, providers: Running, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """As a user calls it, in a process of its own."""
    from nightdesk.model.simulator import environment

    known = {**os.environ, **environment(providers.url), "NIGHTDESK_HOME": str(home)}
    command = [sys.executable, "-m", "nightdesk.cli", "test", *arguments]
    return subprocess.run(command, env=known, capture_output=True, text=True, timeout=100, check=False)


def test_a_user_sees_what_failed_and_why(sqlite_house: House, providers: Running) -> None:
    small(sqlite_house, *CASES, yaml=YAML.replace("rate: 0.5", "rate: 0.9")).close()
    done = _test(sqlite_house.home, providers, "small")
    assert done.returncode == 1
    assert "small " in done.stdout
    assert "4 of 8 cases passed (50%), for $0.0000 in" in done.stdout
    assert 'title equals: it is "NOT FINE", not "fine"' in done.stdout
    assert "That is under its bar of 90%" in done.stderr


def test_a_program_reads_it_as_json_and_over_the_bar_nothing_is_said_against_it(
    sqlite_house: House, providers: Running
) -> None:
    small(sqlite_house, case("fine"), case("good")).close()
    done = _test(sqlite_house.home, providers, "small", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (told["over_the_bar"], told["passed"], told["cases"], told["rate"]) == (True, 2, 2, 1.0)
    assert told["results"][0] == {
        "name": "fine", "passed": True, "reasons": [], "state": "done", "cost_usd": "0.000000",
        "seconds": told["results"][0]["seconds"],
    }  # fmt: skip


def test_too_few_cases_are_under_the_bar_however_well_they_do(sqlite_house: House) -> None:
    opened = small(sqlite_house, case("fine"), yaml=YAML.replace("cases: 2", "cases: 50"))
    trial = run(opened)
    opened.close()
    assert (trial.rate, trial.is_over_the_bar) == (1.0, False)
