"""Requests by raw socket that a well-behaved client would never send: each is a 4xx, fast, and stores nothing."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator

import httpx
import psutil
import pytest

from nightdesk.house import open_house
from nightdesk.web import app, serve
from nightdesk.work.insight import count_states
from tests.support.processes import wait_until
from tests.support.web import WebServer, read_answer
from tests.web.test_json_bodies import REFUSED, SLOW

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """One server for the tests to which the database is all one."""
    house = open_house(tmp_path_factory.mktemp("house"))
    with WebServer(house) as running:
        yield running
    house.close()


def head(server: WebServer, *headers: str, target: str = "/v1/tasks", method: str = "POST") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.token()}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post_head(server: WebServer, *headers: str) -> bytes:
    return head(server, "Idempotency-Key: k", "Content-Type: application/json", *headers)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def problem(answer: bytes) -> str:
    """The end of the problem's type, after checking that it is one."""
    headers, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in headers.lower()
    document = json.loads(body)
    assert document["status"] == status(answer)
    return str(document["type"]).rpartition(":")[2]


@pytest.mark.parametrize("name", [*REFUSED, *SLOW])
def test_bodies_that_are_not_strict_json(small_server: WebServer, name: str) -> None:
    body = SLOW[name] if name in SLOW else REFUSED[name][0]
    request = post_head(small_server, f"Content-Length: {len(body)}") + body
    began = time.monotonic()
    answer = small_server.raw(request)
    assert time.monotonic() - began < 1
    assert status(answer) in (400, 413)
    assert problem(answer) in ("bad-json", "too-large")
    assert count_states(small_server.house) == {}


def test_an_announced_large_body_is_refused_before_it_is_sent(small_server: WebServer) -> None:
    began = time.monotonic()
    answer = small_server.raw(post_head(small_server, f"Content-Length: {MEBIBYTE + 1}", "Expect: 100-continue"))
    assert (status(answer), problem(answer)) == (413, "too-large")
    assert time.monotonic() - began < 1


def test_a_large_body_that_is_sent_gets_its_answer_too(small_server: WebServer) -> None:
    body = b'{"a":"' + b"x" * (3 * MEBIBYTE) + b'"}'
    assert status(small_server.raw(post_head(small_server, f"Content-Length: {len(body)}"), body)) == 413


def test_a_body_at_the_limit_is_read(small_server: WebServer) -> None:
    body = b'{"a":"' + b"x" * (MEBIBYTE - 8) + b'"}'
    assert len(body) == MEBIBYTE
    assert status(small_server.raw(post_head(small_server, f"Content-Length: {MEBIBYTE}") + body)) == 422


def test_a_chunked_body_without_end_is_cut_off_and_held_nowhere(small_server: WebServer) -> None:
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with small_server.connect() as wire:
        wire.sendall(post_head(small_server, "Transfer-Encoding: chunked"))
        began = time.monotonic()
        for _ in range(MEBIBYTE // 0x10000 + 1):
            wire.sendall(chunk)
        answer = read_answer(wire)
        assert time.monotonic() - began < 1
        assert (status(answer), problem(answer)) == (413, "too-large")
        _assert_hung_up(wire, within=3, sending=chunk)
    assert process.memory_info().rss - before < 50 * MEBIBYTE


def test_a_body_without_end_where_none_is_wanted_is_cut_off(small_server: WebServer) -> None:
    with small_server.connect() as wire:
        wire.sendall(head(small_server, "Transfer-Encoding: chunked", target="/healthz/live", method="GET"))
        assert status(read_answer(wire)) == 200
        _assert_hung_up(wire, within=3, sending=b"1\r\nx\r\n")


def _assert_hung_up(wire: socket.socket, within: float, sending: bytes = b"") -> None:
    """The server closes the connection, whether or not more is sent."""
    deadline = time.monotonic() + within
    wire.settimeout(0.05)
    while time.monotonic() < deadline:
        try:
            if sending:
                wire.sendall(sending)
            if wire.recv(65_536) == b"":
                return
        except TimeoutError:
            continue
        except OSError:
            return
    raise AssertionError("the connection is still open")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, identity", "x"])
def test_packed_bodies_are_not_unpacked(small_server: WebServer, coding: str) -> None:
    answer = small_server.raw(
        post_head(small_server, f"Content-Encoding: {coding}", "Content-Length: 4") + b"\x1f\x8b\x08\x00"
    )
    assert (status(answer), problem(answer)) == (415, "unsupported-media-type")


def test_a_head_that_does_not_end_is_given_up(small_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.3)
    with small_server.connect() as wire:
        wire.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        began = time.monotonic()
        answer = read_answer(wire)
        assert 0.1 < time.monotonic() - began < 2
        assert (status(answer), problem(answer)) == (408, "request-timeout")
        assert wire.recv(1) == b""


def test_a_head_that_trickles_is_given_up(small_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.5)
    with small_server.connect() as wire:
        wire.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        _assert_hung_up(wire, within=3, sending=b"a")


def test_the_second_request_on_a_connection_must_come_in_time_too(
    small_server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.5)
    with small_server.connect() as wire:
        wire.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(read_answer(wire)) == 200
        wire.sendall(b"GET /healthz/live HTTP/1.1\r\nX-Slow: ")
        _assert_hung_up(wire, within=3, sending=b"a")


def test_a_body_that_does_not_come_is_given_up(small_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.3)
    with WebServer(small_server.house) as hasty, hasty.connect() as wire:
        wire.sendall(post_head(hasty, "Content-Length: 100") + b'{"a":')
        began = time.monotonic()
        answer = read_answer(wire)
        assert time.monotonic() - began < 2
        assert (status(answer), problem(answer)) == (408, "request-timeout")
        _assert_hung_up(wire, within=3)


BROKEN = {
    "no HTTP": b"hello\r\n\r\n",
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    "a head of 64 KiB": b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 65_536 + b"\r\n\r\n",
    "ten thousand headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "a length below nothing": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a length without end": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
    "a non-ASCII path": b"GET /v1/t\xc3\xa4sks HTTP/1.1\r\nHost: x\r\n\r\n",
    "a NUL in the path": b"GET /v1/tasks/a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unknown transfer coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_http_is_refused(small_server: WebServer, name: str) -> None:
    began = time.monotonic()
    answer = small_server.raw(BROKEN[name])
    assert time.monotonic() - began < 1
    assert 400 <= status(answer) < 502
    assert status(answer) != 500
    problem(answer)


IDS = ("%00", "a%00b", "%ff", "%C3%A4", "%zz", "%", "..", "%2e%2e%2fetc", "'--", "a" * 129, "a" * 9_000, "%F0%9F")


@pytest.mark.parametrize("action", ["", "/cancel", "/replay", "/answer"])
def test_ids_that_cannot_be(server: WebServer, action: str) -> None:
    method = "POST" if action else "GET"
    body = b'{"choice":"x"}' if action == "/answer" else b""
    headers = ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    for task_id in IDS:
        answer = server.raw(head(server, *headers, target=f"/v1/tasks/{task_id}{action}", method=method) + body)
        assert status(answer) in (400, 404, 405, 422), task_id
        problem(answer)


@pytest.mark.parametrize("secret", [b"\xff\xfe", b"nd_\xe4", b"a b", b"", b"x" * 20_000])
def test_tokens_that_cannot_be(server: WebServer, secret: bytes) -> None:
    answer = server.raw(b"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + b"\r\n\r\n")
    assert (status(answer), problem(answer)) == (401, "unauthorized")


def test_answers_do_not_wait_for_acknowledgements(small_server: WebServer) -> None:
    """With Nagle's algorithm on, each answer after the first would take 40 ms."""
    with small_server.connect() as wire:
        wire.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
        read_answer(wire)
        [connection] = small_server.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_more_connections_than_there_is_room_for(small_server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 3)
    with contextlib.ExitStack() as open_wires:
        wires = [open_wires.enter_context(small_server.connect()) for _ in range(3)]
        wait_until(lambda: len(small_server.connections) == 3, 5, "three connections are open")
        answer = small_server.raw(b"")
        assert (status(answer), problem(answer)) == (503, "unavailable")
        wires[0].sendall(b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(read_answer(wires[0])) == 200


def test_a_client_that_leaves_in_the_middle_harms_no_one(small_server: WebServer) -> None:
    for _ in range(20):
        with small_server.connect() as wire:
            wire.sendall(post_head(small_server, "Content-Length: 100") + b'{"a":')
    assert httpx.get(f"{small_server.url}/healthz/ready", trust_env=False).status_code == 200
    assert count_states(small_server.house) == {}
