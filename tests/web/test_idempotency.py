"""The Idempotency-Key header: the table of trust.md, row by row."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightdesk.clock import SetClock
from nightdesk.errors import NightdeskError
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit_in
from nightdesk.intake.requests import Answer, Requests, StillRunning
from nightdesk.store import requests
from nightdesk.work import sweeper
from nightdesk.work.insight import count_states
from tests.support.web import WebServer


def post(api: httpx.Client, key: str | None, name: str = "one", **fields: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return api.post("/v1/tasks", json={"playbook": "drill", "input": {"name": name}} | fields, headers=headers)


def test_without_a_key_the_answer_says_what_to_send(api: httpx.Client) -> None:
    refused = post(api, None)
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:nightdesk:problem:idempotency-key")
    assert "Idempotency-Key: " in refused.json()["next_step"]


def test_a_house_may_do_without_keys(house_folder: Path) -> None:
    with (house_folder / "nightdesk.toml").open("a") as settings:
        settings.write("\n[api]\nrequire_idempotency_key = false\n")
    house = open_house(house_folder)
    with WebServer(house) as server, server.client() as api:
        assert post(api, None).status_code == 202
        asked = api.get("/openapi.json").json()["paths"]["/v1/tasks"]["post"]["parameters"]
        assert [parameter["required"] for parameter in asked] == [False]
    house.close()


def test_the_same_request_gets_the_same_answer_whatever_became_of_the_task(api: httpx.Client) -> None:
    first = post(api, "k1")
    assert "Idempotent-Replayed" not in first.headers
    api.post(f"{first.headers['Location']}/cancel")
    again = post(api, "k1")
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert api.get(first.headers["Location"]).json()["state"] == "cancelled"


def test_another_body_is_refused(api: httpx.Client, server: WebServer) -> None:
    post(api, "k1")
    refused = post(api, "k1", "two")
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:nightdesk:problem:key-reused")
    assert count_states(server.house) == {"queued": 1}


def test_a_quoted_key_is_the_bare_one(api: httpx.Client) -> None:
    assert post(api, '"a\\\\b"').status_code == 202
    assert post(api, "a\\b").headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("key", ["", '""', '"open', "a b", "k" * 256, "a\x01b", "caf\xe9", '"a" , "b"'])
def test_a_malformed_key_is_refused(server: WebServer, key: str) -> None:
    answer = _raw_post(server, b"Idempotency-Key: " + key.encode("latin-1") + b"\r\n")
    assert answer.split(b" ", 2)[1] == b"400"
    assert count_states(server.house) == {}


def test_two_keys_are_refused(server: WebServer) -> None:
    answer = _raw_post(server, b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n")
    assert answer.split(b" ", 2)[1] == b"400"


def _raw_post(server: WebServer, headers: bytes) -> bytes:
    body = b'{"playbook":"drill","input":{"name":"one"}}'
    head = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += b"Authorization: Bearer %s\r\nContent-Length: %d\r\n" % (server.token().encode(), len(body))
    return server.raw(head + headers + b"\r\n" + body)


def test_the_longest_key_is_taken(api: httpx.Client) -> None:
    assert post(api, "k" * 255).status_code == 202


def test_another_tenants_same_key_is_another_key(server: WebServer) -> None:
    with server.client("submit", tenant="a") as a, server.client("submit", tenant="b") as b:
        first, other = post(a, "k1"), post(b, "k1", "two")
    assert (first.status_code, other.status_code) == (202, 202)
    assert "Idempotent-Replayed" not in other.headers


def test_a_refused_request_leaves_the_key_unused(api: httpx.Client) -> None:
    assert post(api, "k1", nonsense=1).status_code == 422
    assert post(api, "k1", input={"name": "one", "steps": 0}).status_code == 422
    assert post(api, "k1", playbook="none").status_code == 404
    good = post(api, "k1")
    assert good.status_code == 202
    assert "Idempotent-Replayed" not in good.headers


def test_an_old_key_is_a_new_request(api: httpx.Client, server: WebServer, clock: SetClock) -> None:
    post(api, "k1")
    clock.advance(24 * 3600 - 1)
    assert post(api, "k1", "two").status_code == 422
    clock.advance(1)
    assert post(api, "k1", "two").status_code == 202
    assert count_states(server.house) == {"queued": 2}


def test_old_answers_are_forgotten(timed_house: House, clock: SetClock) -> None:
    kept = Requests(timed_house)
    for key in ("a", "b"):
        kept.once("main", key, "f", lambda conn: Answer(202, {}, {}))
    clock.advance(24 * 3600)
    kept.once("main", "c", "f", lambda conn: Answer(202, {}, {}))
    sweeper.forget(timed_house)
    with timed_house.db.read() as conn:
        assert [row.key for row in conn.execute(requests.select())] == ["c"]


def test_two_at_once_in_one_process(timed_house: House) -> None:
    started, finish = threading.Event(), threading.Event()
    kept = Requests(timed_house)

    def slow(conn: Any) -> Answer:
        started.set()
        assert finish.wait(10)
        return Answer(202, {}, {"first": True})

    first = threading.Thread(target=kept.once, args=("main", "k1", "f", slow))
    first.start()
    assert started.wait(10)
    with pytest.raises(StillRunning):
        kept.once("main", "k1", "f", lambda conn: Answer(202, {}, {"first": False}))
    finish.set()
    first.join()
    assert kept.once("main", "k1", "f", lambda conn: Answer(202, {}, {})) == Answer(202, {}, {"first": True}, True)


def test_two_at_once_in_two_processes(timed_house: House, house_folder: Path) -> None:
    """Each has its own Requests, as two processes would; the database decides."""
    other = open_house(house_folder, clock=timed_house.clock)
    started, finish = threading.Event(), threading.Event()
    outcomes: list[object] = []

    def slow(conn: Any) -> Answer:
        started.set()
        finish.wait(0.5)
        return Answer(202, {}, {"first": True})

    def second() -> None:
        assert started.wait(10)
        try:
            outcomes.append(Requests(other).once("main", "k1", "f", lambda conn: Answer(202, {}, {"first": False})))
        except StillRunning as refused:
            outcomes.append(refused)

    late = threading.Thread(target=second)
    late.start()
    Requests(timed_house).once("main", "k1", "f", slow)
    late.join()
    other.close()
    [outcome] = outcomes
    assert isinstance(outcome, StillRunning) or outcome == Answer(202, {}, {"first": True}, True)
    assert isinstance(outcome, StillRunning) is not timed_house.db.is_sqlite


def test_an_error_leaves_the_key_unused(timed_house: House) -> None:
    kept = Requests(timed_house)

    def fails(conn: Any) -> Answer:
        submit_in(timed_house, conn, Submission("drill", {"name": "one"}), actor="test")
        raise NightdeskError("refused")

    with pytest.raises(NightdeskError):
        kept.once("main", "k1", "f", fails)
    assert count_states(timed_house) == {}
    assert not kept.once("main", "k1", "g", lambda conn: Answer(202, {}, {})).replayed


def test_eight_threads_with_the_same_thousand_keys_make_a_thousand_tasks(timed_house: House) -> None:
    kept = Requests(timed_house)

    def ask(number: int) -> str:
        def work(conn: Any) -> Answer:
            submit_in(timed_house, conn, Submission("drill", {"name": f"n{number}"}), actor="test")
            return Answer(202, {}, {"number": number})

        answer = kept.once("main", f"k{number}", "f", work)
        assert answer.body == {"number": number}
        return "replayed" if answer.replayed else "new"

    seen = _eight_at_once(ask, 1_000)
    assert seen["new"] == 1_000
    assert seen["replayed"] + seen["running"] == 7_000
    assert count_states(timed_house) == {"queued": 1_000}


def test_eight_clients_with_the_same_keys_make_one_task_for_each(server: WebServer) -> None:
    token = server.token("submit")

    def ask(number: int) -> str:
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"k{number}"}
        body = {"playbook": "drill", "input": {"name": f"n{number}"}}
        answer = httpx.post(f"{server.url}/v1/tasks", json=body, headers=headers, timeout=30, trust_env=False)
        if answer.status_code == 409:
            assert answer.headers["Retry-After"] == "1"
            raise StillRunning("so the server says")
        assert answer.status_code == 202
        return "replayed" if "Idempotent-Replayed" in answer.headers else "new"

    seen = _eight_at_once(ask, 20)
    assert seen["new"] == 20
    assert seen["replayed"] + seen["running"] == 140
    assert count_states(server.house) == {"queued": 20}


def _eight_at_once(ask: Callable[[int], str], count: int) -> Counter[str]:
    """What eight threads saw that asked 0 to count - 1 side by side."""
    barrier = threading.Barrier(8)

    def ask_all() -> list[str]:
        barrier.wait()
        return [outcome(number) for number in range(count)]

    def outcome(number: int) -> str:
        try:
            return ask(number)
        except StillRunning:
            return "running"

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask_all) for _ in range(8)]
        return Counter(seen for one in asked for seen in one.result())
