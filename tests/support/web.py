"""The real API server in a thread of the test, and clients for it: well-behaved, and by raw socket."""

import socket
import threading
import time
from types import TracebackType
from typing import Any

import httpx

from nightdesk.guard.tokens import create_token
from nightdesk.house import House
from nightdesk.web.rooms import PATIENCE_SECONDS
from nightdesk.web.serve import listen, make_server


class WebServer:
    """Serves the house on a free port for as long as the `with` lasts."""

    def __init__(self, house: House, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.house = house
        self._listener = listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = make_server(house, patience_seconds)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    def __enter__(self) -> "WebServer":
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=10)

    def token(self, *scopes: str, tenant: str | None = None) -> str:
        house = self.house
        return create_token(house.db, house.clock, "test", scopes or ("admin",), tenant=tenant, actor="test").secret

    def client(self, *scopes: str, tenant: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token(*scopes, tenant=tenant)}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    @property
    def connections(self) -> set[Any]:
        return self._server.server_state.connections

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=15)

    def raw(self, *parts: bytes) -> bytes:
        """What comes back for these bytes until the server hangs up or falls silent for half a second."""
        with self.connect() as wire:
            for part in parts:
                wire.sendall(part)
            return read_answer(wire)


def read_answer(wire: socket.socket) -> bytes:
    """One answer, by its Content-Length."""
    got = b""
    while b"\r\n\r\n" not in got and (chunk := wire.recv(65_536)):
        got += chunk
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    missing = int(lengths[0]) - len(body) if lengths else 0
    while missing > 0 and (chunk := wire.recv(missing)):
        got += chunk
        missing -= len(chunk)
    return got
