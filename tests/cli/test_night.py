"""`nightdesk night`: a night that begins now, its view, its end, and what becomes of it when the view is closed."""

import os
import pty
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from nightdesk.house import open_house
from nightdesk.intake import Submission, submit
from tests.cli.conftest import Terminal
from tests.support.playbooks import write_yaml
from tests.support.processes import PROGRAM, Processes, environment, wait_until

_PLAYBOOK = """
    name: job
    when: night
    risk: {risk}
    input: {{name: string}}
    key: "{{name}}"
    run: run.py:work
"""
_RUN = """
    import asyncio

    from nightdesk.errors import GiveUp


    async def work(order, desk):
        if order.name == "fails":
            raise GiveUp("It was told to.")
        if order.name == "asks":
            await desk.ask("Go on?", ["yes"])
        if order.name == "endless":
            await desk.step("endless", asyncio.sleep, 3600)
"""


def _have_job(home: Path, risk: str = "internal") -> None:
    write_yaml(home, _PLAYBOOK.format(risk=risk), "job", _RUN)


def _add(nightdesk: Terminal, *names: str) -> None:
    house = open_house(nightdesk.home)
    for name in names:
        submit(house, Submission("job", {"name": name}))
    house.close()


def test_a_night_that_begins_now_prints_what_it_came_to(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    _have_job(nightdesk.home)
    _add(nightdesk, "a", "b", "asks", "fails")
    answer = nightdesk("night", "--now", "--json")
    summary = answer.json
    assert list(summary) == [
        "night", "planned", "done", "review", "waiting", "dead", "cost_usd", "live_cost_usd", "saved_usd",
        "started_at", "ended_at",
    ]  # fmt: skip
    counts = {name: summary[name] for name in ("planned", "done", "review", "waiting", "dead")}
    assert counts == {"planned": 4, "done": 2, "review": 0, "waiting": 1, "dead": 1}
    assert [Decimal(summary[name]) for name in ("cost_usd", "live_cost_usd", "saved_usd")] == [0, 0, 0]
    assert summary["started_at"] <= summary["ended_at"]
    assert "closed: 2 done, 0 on the desk, 1 left, 1 dead" in answer.err
    told = nightdesk("night", "--now").out
    assert " is closed: 0 done, 0 on the desk, 0 waiting, 0 dead. It cost $0.000000" in told


def test_a_view_that_is_closed_parks_the_night_of_its_own_worker(nightdesk: Terminal) -> None:
    _have_job(nightdesk.home)
    _add(nightdesk, "endless", "a")
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "night", "--now"],
        env=environment(nightdesk.home, {"NIGHTDESK_WORKER_DRAIN_SECONDS": "0"}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal,
    ) as process:  # fmt: skip
        os.close(terminal)
        said = b""
        while b"1 done" not in said:
            said += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        while chunk := _read(ours):
            said += chunk
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert b"The night of 20" in said
    assert b"The night is parked, for its only worker ends with this command" in said
    states = nightdesk("status", "--json").json["tasks"]
    assert states == {"done": 1, "queued": 1}
    # Another worker goes on with it; a view that is closed is none of its business.


def test_a_view_of_a_night_that_another_worker_runs(nightdesk: Terminal, processes: Processes) -> None:
    _have_job(nightdesk.home)
    _add(nightdesk, "endless")
    processes.start(nightdesk.home, "worker")
    wait_until(lambda: nightdesk("status", "--json").json["workers"], 30, "the worker is there")
    view = processes.start(nightdesk.home, "night", "--now")
    wait_until(lambda: "1 left" in view.output(), 30, "the view shows the night")
    view._popen.send_signal(signal.SIGINT)
    assert view.wait(20) == 130
    assert "The night goes on without this view" in view.output()
    assert nightdesk("status", "--json").json["tasks"] == {"working": 1}


def test_until_the_next_night_it_says_when_that_is(nightdesk: Terminal, processes: Processes) -> None:
    now = datetime.now(UTC)
    hours = [f"{now + timedelta(hours=later):%H:%M}" for later in (2, 3, 4)]
    settings = nightdesk.home / "nightdesk.toml"
    night = '\n[night]\ncutoff = "{}"\nstart = "{}"\nstop = "{}"\n'.format(*hours)
    settings.write_text(settings.read_text(encoding="utf-8") + night, encoding="utf-8")
    view = processes.start(nightdesk.home, "night")
    wait_until(lambda: f" {hours[0]}, from {hours[1]} to {hours[2]}." in view.output(), 30, "it says when")
    view._popen.send_signal(signal.SIGINT)
    assert view.wait(20) == 130


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--until", "06:00"], "--now: is missing"),
        (["--now", "--until", "late"], "--until: must be a time of day such as 06:00"),
        (["--now", "--anyway", "job"], "must be a playbook and why"),
        (["--now", "--anyway", "jbo=launch"], 'did you mean "job"'),
    ],
)
def test_what_makes_no_sense_is_refused(nightdesk: Terminal, arguments: list[str], refusal: str) -> None:
    _have_job(nightdesk.home)
    assert refusal in nightdesk.refuses("night", *arguments)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # the other end is closed
        return b""
