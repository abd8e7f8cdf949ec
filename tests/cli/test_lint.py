"""`nightdesk lint`, and the commands that came with it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit
from nightdesk.night.ticks import idle_crons
from nightdesk.store import tasks
from tests.cli.conftest import Terminal
from tests.support.playbooks import RUN, write_yaml

_TICK = 'name: tick\nwhen: {cron: "0 4 * * *"}\nrun: run.py:work\nrisk: internal\n'
_BARE = "name: bare\nmodel: anthropic:claude-haiku-4-5\ninstructions: Write.\ninput:\n  name: string\n"
_SOUND = """\
name: sound
model: anthropic:claude-haiku-4-5
instructions: Write.
input:
  name: string
limits: {turns: 3, tokens: 500, time: 5m}
budget: {task: 0.10}
golden: golden.jsonl
"""


def _found(nightdesk: Terminal, *options: str) -> list[tuple[str, str]]:
    return [(item["rule"], item["playbook"]) for item in nightdesk("lint", "--json", *options).json["items"]]


def _told(home: Path, text: str) -> None:
    file = home / "nightdesk.toml"
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_what_a_playbook_that_asks_models_lacks(nightdesk: Terminal) -> None:
    write_yaml(nightdesk.home, _BARE, folder="bare")
    file = write_yaml(nightdesk.home, _SOUND, folder="sound")
    file.with_name("golden.jsonl").write_text('{"name": "one", "input": {"name": "x"}}\n', encoding="utf-8")
    found = nightdesk("lint", "--strict", "--json", code=1).json["items"]
    assert [(item["rule"], item["playbook"]) for item in found] == [
        ("notification", ""), ("limits", "bare"), ("golden", "bare"),
    ]  # fmt: skip
    assert "limits.turns, limits.tokens, limits.time, budget.task" in found[1]["says"]


def test_a_house_in_which_all_is_well(nightdesk: Terminal) -> None:
    _told(nightdesk.home, '\n[notify]\nurls = ["env:CHAT_URL"]\n')
    assert nightdesk("lint", "--strict").out == "There is nothing to mend.\n"


def test_a_chain_with_nothing_in_parallel(nightdesk: Terminal) -> None:
    """Research, analysis and report wait for each other; where two come then, there is no chain."""
    _told(nightdesk.home, '\n[notify]\nurls = ["json://localhost"]\n')
    for name, then in (("a-find", "[b-look]"), ("b-look", "[c-tell]"), ("c-tell", "[]"), ("d-fork", "[e-one, f-two]")):
        write_yaml(nightdesk.home, f"name: {name}\nrun: run.py:work\nthen: {then}\n", folder=name, run=RUN)
    for name in ("e-one", "f-two"):
        write_yaml(nightdesk.home, f"name: {name}\nrun: run.py:work\n", folder=name, run=RUN)
    shown = nightdesk("lint").out
    assert "chain: a-find: a-find → b-look → c-tell: 3 stages" in shown
    assert "1 to mend." in shown


def test_a_schedule_that_finds_nothing_is_pointed_out_by_doctor_too(nightdesk: Terminal) -> None:
    _told(nightdesk.home, '\n[notify]\nurls = ["json://localhost"]\n')
    write_yaml(nightdesk.home, _TICK, folder="tick", run=RUN)
    results: list[Any] = [{"found": []}, None, {"found": [1]}, {"found": [2]}, {"found": [], "more": False}]
    house = open_house(nightdesk.home)
    for number, result in enumerate(results):
        found = list(idle_crons(house.db, house.registry))
        assert found == []  # half is not more than half
        _tick(house, number, result)
    house.close()
    assert _found(nightdesk) == [("event-driven", "tick")]
    assert (
        "tick: 3 of its last 5 ticks found nothing to do" in nightdesk("doctor", code=1).out
    )  # no worker has sealed the trail


def _tick(house: House, number: int, result: Any) -> None:
    moment = datetime(2030, 1, 31, tzinfo=UTC) + timedelta(days=number)
    task_id = submit(house, Submission("tick", {}, key=moment.isoformat()), actor="cron").id
    with house.db.write() as conn:
        ended = {"state": "done", "ended_at": moment, "rank": None, "result": result}
        conn.execute(tasks.update().where(tasks.c.id == task_id), ended)


def test_then_must_name_what_exists_and_end_somewhere(nightdesk: Terminal) -> None:
    write_yaml(nightdesk.home, "name: one\nrun: run.py:work\nthen: [too]\n", folder="one", run=RUN)
    write_yaml(nightdesk.home, "name: two\nrun: run.py:work\nthen: [two]\n", folder="two", run=RUN)
    said = nightdesk.refuses("lint")
    assert '`then` names the unknown playbook too; did you mean "two"' in said
    assert "two would start itself for ever" in said


def test_an_event_is_emitted_from_the_shell(nightdesk: Terminal) -> None:
    yaml = "name: react\nwhen: {event: price-changed}\ninput:\n  item: string\nrun: run.py:work\n"
    write_yaml(nightdesk.home, yaml, folder="react", run=RUN)
    first = nightdesk("emit", "price-changed", '{"item": "x"}', "--json").json["items"]
    again = nightdesk("emit", "price-changed", '{"item": "x"}', "--json").json["items"]
    assert [item["created"] for item in first + again] == [True, False]
    assert first[0]["id"] == again[0]["id"]
    assert 'did you mean "price-changed"' in nightdesk.refuses("emit", "price-change")


def test_there_is_no_summary_before_a_night(nightdesk: Terminal) -> None:
    assert "No night is closed yet." in nightdesk.refuses("summary")
