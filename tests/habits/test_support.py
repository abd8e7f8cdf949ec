"""The tests' own tools do what the tests rely on."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.processes import Processes, environment, wait_until
from tests.support.proxy import Proxy


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as started:
        yield started


def _connect(server: PostgresServer, proxy: Proxy) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(server.url(port=proxy.port), connect_timeout=2, autocommit=True)


def _answers(conn: "psycopg.Connection[tuple[object, ...]]") -> bool:
    return conn.execute("SELECT 1").fetchone() == (1,)


def test_the_proxy_passes_on_what_is_said(postgres_server: PostgresServer, proxy: Proxy) -> None:
    with _connect(postgres_server, proxy) as conn:
        assert _answers(conn)
        assert proxy.connections == 1


def test_a_reset_breaks_existing_connections_only(postgres_server: PostgresServer, proxy: Proxy) -> None:
    conn = _connect(postgres_server, proxy)
    proxy.reset()
    with pytest.raises(psycopg.OperationalError):
        _answers(conn)
    with _connect(postgres_server, proxy) as another:
        assert _answers(another)


def test_a_refusal_turns_new_connections_away_until_healed(postgres_server: PostgresServer, proxy: Proxy) -> None:
    with _connect(postgres_server, proxy) as conn:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            _connect(postgres_server, proxy)
        assert _answers(conn)
    proxy.heal()
    with _connect(postgres_server, proxy) as conn:
        assert _answers(conn)


def test_silence_holds_back_what_is_said_until_healed(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=0.2) as conn:
        wait_until(lambda: proxy.connections == 1, 5, "the proxy has the connection")
        proxy.silence()
        conn.sendall((8).to_bytes(4) + (80_877_103).to_bytes(4))  # Postgres's question whether it speaks TLS
        with pytest.raises(TimeoutError):
            conn.recv(1)
        proxy.heal()
        conn.settimeout(5)
        assert conn.recv(1) == b"N"


def test_silence_can_include_new_connections(postgres_server: PostgresServer, proxy: Proxy) -> None:
    proxy.silence()
    with _connect(postgres_server, proxy) as conn:
        assert _answers(conn)
    proxy.silence(new=True)
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        _connect(postgres_server, proxy)


@pytest.mark.parametrize("end", ["fast", "immediate", "kill"])
def test_the_server_comes_back_with_what_it_stored(own_postgres: PostgresServer, end: str) -> None:
    with psycopg.connect(own_postgres.url()) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 1")
    if end == "kill":
        own_postgres.kill()
    else:
        own_postgres.stop(end)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_postgres.url())
    own_postgres.start()
    with psycopg.connect(own_postgres.url()) as conn:
        assert conn.execute("SELECT count(*) FROM kept").fetchone() == (1,)
        assert conn.execute("SHOW fsync").fetchone() == ("on",)


def test_the_wheel_serves_where_the_machine_has_no_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_POSTGRES", "wheel")
    server = PostgresServer()
    try:
        server.start()
        with psycopg.connect(server.url()) as conn:
            assert _answers(conn)
    finally:
        server.remove()


def test_nothing_is_left_running(tmp_path: Path) -> None:
    """Not even the grandchild in a session of its own, whose parent is gone."""
    program = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    started = Processes(tmp_path)
    running = started.start(tmp_path, "--version")
    subprocess.run([sys.executable, "-c", program], env=environment(tmp_path), check=True)
    assert _sleepers(tmp_path)
    started.close()
    assert not running.alive
    assert not _sleepers(tmp_path)


def _sleepers(house: Path) -> list[psutil.Process]:
    asleep = [process for process in psutil.process_iter(["name"]) if process.info["name"] == "sleep"]
    return [process for process in asleep if process.environ().get("NIGHTDESK_HOME") == str(house)]
