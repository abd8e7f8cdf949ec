"""`up`, `web`, `worker` and `night` as they are used: real processes, real signals, real HTTP."""

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from tests.cli.conftest import Terminal
from tests.support.processes import PROGRAM, Processes, Running, environment, wait_until

_UP = "Nightdesk is up at "
_DRILL = {"playbook": "drill", "input": {"name": "through the door", "steps": 2}}


def _address(running: Running) -> str:
    wait_until(lambda: _UP in running.output(), 30, f"the address is printed\n{running.output()}")
    return running.output().partition(_UP)[2].split()[0]


def _children(running: Running) -> dict[str, psutil.Process]:
    """The processes of `up` by their command; one that is just starting or ending is left out."""
    found = {}
    for child in psutil.Process(running.pid).children():
        with contextlib.suppress(psutil.Error, IndexError):
            found[child.cmdline()[4]] = child
    return found


def _client(nightdesk: Terminal, address: str) -> httpx.Client:
    token = nightdesk("token", "create", "--scopes", "submit,read", "--json").json["token"]
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=10)


def _done(client: httpx.Client, location: str) -> Callable[[], bool]:
    return lambda: bool(client.get(location).json()["state"] == "done")


def _submit(client: httpx.Client, name: str) -> str:
    body = {**_DRILL, "input": {"name": name}}
    answer = client.post("/v1/tasks", json=body, headers={"Idempotency-Key": name})
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


def test_up_from_start_to_end(nightdesk_on_either: Terminal, processes: Processes) -> None:
    nightdesk = nightdesk_on_either
    up = processes.start(nightdesk.home, "up", "--port", "0")
    with _client(nightdesk, _address(up)) as client:
        wait_until(_done(client, _submit(client, "first")), 20, "the first drill is done")

        killed = _children(up)["worker"]
        killed.kill()
        second = _submit(client, "second")
        wait_until(lambda: "worker" in _children(up) and _children(up)["worker"] != killed, 10, "a new worker is there")
        wait_until(_done(client, second), 30, "the second drill is done")

    children = list(_children(up).values())
    up.terminate()
    assert up.wait(10) == 0
    assert all(_is_gone(child) for child in children)
    lines = [line for line in up.output().splitlines() if not line.startswith(_UP)]
    assert any(json.loads(line)["action"] == "restart" for line in lines)


def test_up_goes_down_with_ctrl_c(nightdesk: Terminal, processes: Processes) -> None:
    up = processes.start(nightdesk.home, "up", "--port", "0")
    _address(up)
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(10) == 0


def test_nobody_is_left_when_up_is_killed(nightdesk: Terminal, processes: Processes) -> None:
    up = processes.start(nightdesk.home, "up", "--port", "0")
    _address(up)
    children = list(_children(up).values())
    up.kill()
    wait_until(lambda: all(_is_gone(child) for child in children), 15, "both processes have ended")


def test_up_says_why_it_cannot_begin(nightdesk: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = nightdesk.refuses("up", "--port", port)
    assert f"cannot listen on http://127.0.0.1:{port}" in said
    playbooks = nightdesk.home / "playbooks"
    playbooks.mkdir()
    (playbooks / "wrong.py").write_text("import nowhere\n", encoding="utf-8")
    said = nightdesk.refuses("up", "--port", "0")
    assert "playbooks/wrong.py line 1" in said


def test_web_and_worker_by_themselves(nightdesk: Terminal, processes: Processes) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    web = processes.start(nightdesk.home, "web", "--port", port)
    worker = processes.start(nightdesk.home, "worker")
    address = f"http://127.0.0.1:{port}"
    wait_until(lambda: _is_ready(address), 30, "the web process is ready")
    with _client(nightdesk, address) as client:
        wait_until(_done(client, _submit(client, "first")), 20, "the drill is done")
    wait_until(lambda: nightdesk("status", "--json").json["workers"], 10, "the worker shows")
    for running in (web, worker):
        running.terminate()
        assert running.wait(10) == 0
        assert all(json.loads(line)["level"] for line in running.output().splitlines())
    assert nightdesk("status", "--json").json["workers"] == []


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_up_waits_for_a_database_that_is_away(nightdesk: Terminal, processes: Processes) -> None:
    away = {"NIGHTDESK_DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}
    up = processes.start(nightdesk.home, "up", "--port", "0", env=away)
    refusal = "The database cannot be used now"
    wait_until(lambda: up.output().count(refusal) == 2, 30, f"it has tried again\n{up.output()}")
    assert up.alive
    up.terminate()
    assert up.wait(10) == 0


@pytest.mark.parametrize("command", ["web", "worker", "prepare"])
def test_an_outage_is_told_to_the_supervisor(nightdesk: Terminal, command: str) -> None:
    away = {"NIGHTDESK_DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}
    assert "The database cannot be used now" in nightdesk.refuses(command, code=75, env=away)


def test_drills_in_this_house(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    summary = nightdesk("drill", "20", "--json").json
    assert {name: summary[name] for name in ("count", "done", "review", "dead", "steps")} == {
        "count": 20, "done": 20, "review": 0, "dead": 0, "steps": 60
    }  # fmt: skip
    assert summary["tasks_per_second"] > 0
    assert nightdesk("status", "--json").json["tasks"] == {"done": 20}
    again = nightdesk("drill", "5").out
    assert again.startswith("5 drills: 5 done, 0 in review, 0 dead; 15 steps in ")
    assert nightdesk("audit", "verify", "--json").json["ok"] is True


def test_drills_without_a_house(tmp_path: Path) -> None:
    inherited = {name: value for name, value in environment(tmp_path).items() if name != "NIGHTDESK_HOME"}
    ended = subprocess.run(
        [PROGRAM, "drill", "10"],
        cwd=tmp_path, env=inherited, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout.startswith("10 drills: 10 done"), ended
    assert ended.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_drills_show_their_progress_and_end_with_ctrl_c(nightdesk: Terminal) -> None:
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "drill", "10000"],
        env=environment(nightdesk.home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal,
    ) as process:  # fmt: skip
        os.close(terminal)
        said = b""
        while b"/10000" not in said:
            said += os.read(ours, 1000)
        wait_until(lambda: psutil.Process(process.pid).children(), 10, "the worker is there")
        worker = psutil.Process(process.pid).children()[0]
        process.send_signal(signal.SIGINT)
        threading.Thread(target=_drain, args=(ours,), daemon=True).start()
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == b""
    wait_until(lambda: _is_gone(worker), 20, "the worker has ended")


def _is_gone(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 1000):
            pass
