"""While the database or the disk cannot take a task, the API says so at once, and never answers a false 202."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit
from nightdesk.work.insight import count_states
from tests.conftest import make_house_folder
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes, Running, wait_until
from tests.support.proxy import Proxy
from tests.support.web import WebServer


def post(api: httpx.Client, key: str) -> httpx.Response:
    body = {"playbook": "drill", "input": {"name": key}}
    return api.post("/v1/tasks", json=body, headers={"Idempotency-Key": key})


def calls(api: httpx.Client, key: str) -> Iterator[tuple[httpx.Response, float]]:
    """Every kind of call, with the seconds that it took."""
    every: tuple[Callable[[], httpx.Response], ...] = (
        lambda: post(api, key),
        lambda: api.get("/v1/tasks"),
        lambda: api.get("/v1/tasks/x"),
        lambda: api.post("/v1/tasks/x/cancel"),
        lambda: api.post("/v1/tasks/x/replay"),
        lambda: api.post("/v1/tasks/x/answer", json={"choice": "x"}),
        lambda: api.get("/healthz/ready"),
    )
    for call in every:
        began = time.monotonic()
        answer = call()
        yield answer, time.monotonic() - began


def assert_says_so(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["type"] == "urn:nightdesk:problem:unavailable"


@pytest.fixture
def own_house(own_postgres: PostgresServer, tmp_path: Path) -> Iterator[House]:
    """A house on a server that the test may stop."""
    house = open_house(make_house_folder(tmp_path / "house", own_postgres.url()), patience_seconds=2)
    yield house
    house.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_database_is_down(own_postgres: PostgresServer, own_house: House, mode: str) -> None:
    with WebServer(own_house) as server, server.client() as api:
        accepted = [f"before-{number}" for number in range(5) if post(api, f"before-{number}").status_code == 202]
        own_postgres.stop(mode)
        for round_ in range(3):
            for answer, took in calls(api, f"during-{round_}"):
                assert_says_so(answer)
                assert took < 1
            assert api.get("/healthz/live").status_code == 200
            assert "nightdesk_database_up 0.0" in api.get("/metrics").text
        own_postgres.start()
        wait_until(lambda: api.get("/healthz/ready").status_code == 200, 10, "the API is ready again")
        assert post(api, "during-0").status_code == 202
        assert "Idempotent-Replayed" in post(api, "before-0").headers
        assert count_states(own_house) == {"queued": len(accepted) + 1}


def test_connections_fall_silent_and_speak_again(own_postgres: PostgresServer, tmp_path: Path) -> None:
    with Proxy(own_postgres.port) as proxy:
        url = own_postgres.url(port=proxy.port)
        house = open_house(make_house_folder(tmp_path / "house", url), patience_seconds=2)
        with WebServer(house, patience_seconds=0.3) as server, server.client() as api:
            assert post(api, "before").status_code == 202
            proxy.silence(new=True)
            for number in range(4):
                for answer, took in calls(api, f"during-{number}"):
                    assert_says_so(answer)
                    assert took < 1
            assert api.get("/healthz/live").status_code == 200
            proxy.reset()
            proxy.heal()
            wait_until(lambda: api.get("/healthz/ready").status_code == 200, 20, "the API is ready again")
            assert post(api, "after").status_code == 202
        with contextlib.closing(open_house(tmp_path / "house")) as seen:
            assert count_states(seen)["queued"] >= 2
        house.close()


def test_a_web_process_whose_calls_hang_ends_itself(
    own_postgres: PostgresServer, tmp_path: Path, processes: Processes
) -> None:
    with Proxy(own_postgres.port) as proxy:
        folder = make_house_folder(tmp_path / "house", own_postgres.url(port=proxy.port))
        web = processes.start(folder, "web", "--port", "0", env={"NIGHTDESK_WORKER_STALL_SECONDS": "10"})
        url = _address(web)
        wait_until(lambda: httpx.get(f"{url}/healthz/ready", trust_env=False).status_code == 200, 10, "ready")
        proxy.silence(new=True)
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{url}/healthz/ready", trust_env=False)
        assert web.wait(30) == 1
        assert '"action": "watchdog"' in web.output()


def _address(web: Running) -> str:
    """What the process says that it listens on."""
    wait_until(lambda: '"action": "listening"' in web.output(), 20, "the web process listens")
    return "http" + web.output().partition('"address": "http')[2].partition('"')[0]


def test_sqlite_is_held_by_another(sqlite_url: str, tmp_path: Path) -> None:
    house = open_house(make_house_folder(tmp_path / "house", sqlite_url), patience_seconds=1)
    other = open_house(tmp_path / "house")
    with WebServer(house) as server, server.client() as api:
        with other.db.write():
            assert_says_so(post(api, "one"))
            assert api.get("/v1/tasks").json()["items"] == []
        assert post(api, "one").status_code == 202
        assert count_states(house) == {"queued": 1}
    other.close()
    house.close()


def test_the_disk_is_nearly_full(house_folder: Path) -> None:
    house = open_house(house_folder)
    task_id = submit(house, Submission("drill", {"name": "before"})).id
    house.close()
    with (house_folder / "nightdesk.toml").open("a") as settings:
        settings.write("\n[disk]\nstop_percent = 100\nstop_mb = 1000000000\n")
    house = open_house(house_folder)
    with WebServer(house) as server, server.client() as api:
        refused = post(api, "one")
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:nightdesk:problem:disk-full")
        assert int(refused.headers["Retry-After"]) > 0
        assert count_states(house) == {"queued": 1}
        assert api.get(f"/v1/tasks/{task_id}").status_code == 200
    house.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_order(house_folder: Path, processes: Processes, number: signal.Signals) -> None:
    web = processes.start(house_folder, "web", "--port", "0")
    url = _address(web)
    assert httpx.get(f"{url}/healthz/ready", trust_env=False).status_code == 200
    os.kill(web.pid, number)
    assert web.wait(10) == 0
    assert "Traceback" not in web.output()


def test_a_port_that_is_taken_is_said_in_one_sentence(house_folder: Path, processes: Processes) -> None:
    house = open_house(house_folder)
    with WebServer(house) as server:
        ended = processes.run(house_folder, "web", "--port", str(server.port))
    house.close()
    assert ended.returncode == 1
    assert f"Cannot listen on http://127.0.0.1:{server.port}" in ended.stderr
    assert "Traceback" not in ended.stderr
