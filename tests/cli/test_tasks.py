"""Looking at tasks and dead letters, and deciding about them, in a house where a worker has been at work."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.conftest import make_house_folder
from tests.support.playbooks import write_python
from tests.support.processes import PROGRAM, Processes, environment, wait_until

_PLAYBOOKS = """
from nightdesk.playbook import playbook

@playbook("asker", input={"name": "string"}, when="now", risk="internal", key="{name}")
async def asker(wanted, desk):
    return await desk.ask("Which way?", ["left", "right"])

@playbook("breaker", input={"name": "string"}, when="now", risk="internal", key="{name}", limits={"retries": 0})
async def breaker(wanted, desk):
    await desk.step("good", str, wanted.name)
    await desk.step("bad", fail, wanted.name)

def fail(name):
    raise RuntimeError(f"{name} cannot be done")
"""
_INPUTS = {"drill": ["first", "second"], "asker": ["question"], "breaker": ["red", "green", "blue"]}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Path:
    """A house in which two drills are done, one task asks, and three are dead."""
    folder = tmp_path_factory.mktemp("worked")
    house = make_house_folder(folder / "house", f"sqlite:///{shutil.copy(sqlite_template, folder / 'nightdesk.db')}")
    write_python(house, _PLAYBOOKS)
    nightdesk = Terminal(house)
    for playbook, names in _INPUTS.items():
        for name in names:
            nightdesk("add", playbook, f'{{"name": "{name}"}}')
    processes = Processes(folder)
    try:
        processes.start(house, "worker")
        ended = {"done": 2, "waiting": 1, "dead": 3}
        wait_until(lambda: nightdesk("status", "--json").json["tasks"] == ended, 30, "the work is done")
    finally:
        processes.close()
    return house


@pytest.fixture
def nightdesk(worked: Path, tmp_path: Path) -> Terminal:
    """A copy of that house for each test."""
    shutil.copytree(worked.parent, tmp_path / "copy")
    house = tmp_path / "copy" / "house"
    (house / "nightdesk.toml").write_text(f'[database]\nurl = "sqlite:///{house.parent / "nightdesk.db"}"\n')
    return Terminal(house)


def _id(nightdesk: Terminal, key: str) -> str:
    found = nightdesk("tasks", "list", "--json").json["items"]
    return str(next(task["id"] for task in found if task["key"] == key))


def test_listing(nightdesk: Terminal) -> None:
    done = nightdesk("tasks", "list", "--state", "done", "--playbook", "drill", "--tenant", "main", "--json").json
    assert [task["key"] for task in done["items"]] == ["second", "first"]
    assert done["next_cursor"] is None
    shown = nightdesk("tasks", "list", "--state", "done").out
    assert shown.startswith("id ")
    assert "second" in shown
    assert nightdesk("tasks", "list", "--tenant", "nobody").out.startswith("No tasks here.")


def test_listing_page_by_page(nightdesk: Terminal) -> None:
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        page = nightdesk("tasks", "list", "--limit", "4", "--json", *cursor).json
        seen += [task["key"] for task in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert seen == ["blue", "green", "red", "question", "second", "first"]
    assert "add --cursor " in nightdesk("tasks", "list", "--limit", "2").err
    assert "cursor" in nightdesk.refuses("tasks", "list", "--cursor", "nonsense")
    assert "known are queued, " in nightdesk.refuses("tasks", "list", "--state", "finished")


def test_showing(nightdesk: Terminal) -> None:
    task = nightdesk("tasks", "show", _id(nightdesk, "first"), "--json").json
    assert (task["state"], task["result"], task["cost_usd"]) == ("done", {"steps": 3}, "0.000000")
    assert [(step["step"], step["status"], step["attempt"]) for step in task["steps"]] == [
        ("step-1", "done", 1), ("step-2", "done", 1), ("step-3", "done", 1)
    ]  # fmt: skip
    shown = nightdesk("tasks", "show", task["id"]).out
    assert '{"steps": 3}' in shown
    assert "step-3" in shown


def test_cancelling(nightdesk: Terminal) -> None:
    asked = _id(nightdesk, "question")
    assert nightdesk("tasks", "cancel", asked, "--why", "not needed").out == f"{asked} cancelled\n"
    assert nightdesk("tasks", "cancel", asked, "--json").json["state"] == "cancelled"
    assert "is done already" in nightdesk.refuses("tasks", "cancel", _id(nightdesk, "first"))


def test_answering(nightdesk: Terminal) -> None:
    asked = _id(nightdesk, "question")
    assert "known are left, right" in nightdesk.refuses("tasks", "answer", asked, "up")
    assert "goes on with left" in nightdesk("tasks", "answer", asked, "left").out
    assert "no open question" in nightdesk.refuses("tasks", "answer", asked, "right")


def test_dead_letters(nightdesk: Terminal) -> None:
    found = nightdesk("dead", "list", "--playbook", "breaker", "--error", "cannot", "--json").json["items"]
    assert sorted(task["key"] for task in found) == ["blue", "green", "red"]
    assert "red cannot be done" in nightdesk("dead", "list").out
    assert nightdesk("dead", "list", "--playbook", "drill").out == "No dead letters.\n"
    shown = nightdesk("dead", "show", found[0]["id"], "--json").json
    assert shown["input"] == {"name": found[0]["key"]}
    assert "RuntimeError" in shown["error"]["traceback"]
    assert [step["status"] for step in shown["steps"]] == ["done", "failed"]
    assert shown["history"][-1]["state"] == "dead"
    assert "RuntimeError" in nightdesk("dead", "show", found[0]["id"]).out
    assert "not a dead letter" in nightdesk.refuses("dead", "show", _id(nightdesk, "first"))


def test_replaying(nightdesk: Terminal) -> None:
    red = _id(nightdesk, "red")
    assert nightdesk("dead", "replay", red, "--json").json == {"replayed": 1, "ids": [red]}
    assert nightdesk("dead", "replay", "--error", "cannot be done").out == "Replayed: 2.\n"
    assert nightdesk("status", "--json").json["tasks"] == {"done": 2, "queued": 3, "waiting": 1}
    assert "nothing was done" in nightdesk("dead", "replay", "--playbook", "breaker").err


def test_dropping(nightdesk: Terminal) -> None:
    assert nightdesk("dead", "drop", _id(nightdesk, "red"), "--why", "obsolete").out == "Dropped: 1.\n"
    assert nightdesk("dead", "drop", "--tenant", "main", "--why", "obsolete", "--json").json["dropped"] == 2
    assert nightdesk("status", "--json").json["tasks"] == {"cancelled": 3, "done": 2, "waiting": 1}


def test_an_empty_filter_is_refused(nightdesk: Terminal) -> None:
    assert "The filter is empty" in nightdesk.refuses("dead", "replay")
    assert "The filter is empty" in nightdesk.refuses("dead", "drop", "--why", "x", "--yes")
    assert "not both" in nightdesk.refuses("dead", "replay", "some-id", "--tenant", "main", code=2)
    assert len(nightdesk("dead", "list", "--json").json["items"]) == 3


@pytest.mark.parametrize(("answer", "left"), [("n", 3), ("y", 0)])
def test_a_person_at_a_terminal_is_asked(nightdesk: Terminal, answer: str, left: int) -> None:
    keyboard, terminal = pty.openpty()
    command = [PROGRAM, "dead", "drop", "--playbook", "breaker", "--why", "obsolete"]
    with subprocess.Popen(
        command, env=environment(nightdesk.home), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.write(keyboard, f"{answer}\n".encode())
        _, said = process.communicate(timeout=30)
    os.close(keyboard)
    os.close(terminal)
    assert b"Drop 3 dead letters? [y/N]" in said
    assert process.returncode == (0 if answer == "y" else 1)
    assert len(nightdesk("dead", "list", "--json").json["items"]) == left
