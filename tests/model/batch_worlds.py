"""A provider to send batches to: the simulator, or a server that says the same to everything."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nightdesk.canonical import Json
from nightdesk.model.providers.base import Account, BatchClient, Item, ItemResult, Parcel
from nightdesk.model.providers.batching import batch_client
from nightdesk.model.simulator import Behaviour, Fault, Simulator, running
from nightdesk.model.simulator.behaviour import FaultKind

PROVIDERS = ("anthropic", "openai", "google")
ENDPOINTS = {"anthropic": "messages", "openai": "chat", "google": "generate"}
KEY = "sk-night-0123456789abcdef"  # pragma: allowlist secret
_PATHS = {"anthropic": "", "openai": "/v1", "google": ""}


def account(provider: str, url: str) -> Account:
    return Account(url + _PATHS[provider], KEY)


def question(endpoint: str, text: str) -> dict[str, Json]:
    """The body that asks this live."""
    said = [{"role": "user", "content": text}]
    bodies: dict[str, dict[str, Json]] = {
        "messages": {"model": "sim-1", "max_tokens": 100, "messages": said},
        "chat": {"model": "sim-1", "messages": said},
        "responses": {"model": "sim-1", "input": text},
        "generate": {"contents": [{"role": "user", "parts": [{"text": text}]}]},
    }
    return bodies[endpoint]


def parcel(
    endpoint: str, count: int, id: str = "parcel-1", at: datetime | None = None, headers: dict[str, str] | None = None
) -> Parcel:
    items = [Item(f"{id}-{number}", question(endpoint, f"{id}: question {number}")) for number in range(count)]
    return Parcel(id, endpoint, "sim-1", headers or {}, at or datetime.now(UTC), items, count)


@dataclass
class World:
    """The simulator as one provider, and a client for its batches."""

    provider: str
    simulator: Simulator
    client: BatchClient

    @property
    def endpoint(self) -> str:
        return ENDPOINTS[self.provider]

    def parcel(self, count: int, id: str = "parcel-1") -> Parcel:
        return parcel(self.endpoint, count, id, datetime.fromtimestamp(self.simulator.now(), UTC))

    def once(self, kind: FaultKind, **details: Any) -> None:
        """Let this go wrong the next time."""
        provider = "gemini" if self.provider == "google" else self.provider
        self.simulator.faults.add(Fault(kind, provider, times=1, **details))

    def advance(self, seconds: float) -> None:
        self.simulator.advance(seconds)

    def ended(self, count: int, id: str = "parcel-1") -> str:
        """A batch that was sent and has had its time."""
        provider_id = self.client.create(self.parcel(count, id))
        self.advance(60)
        return provider_id

    def results(self, provider_id: str) -> dict[str, ItemResult]:
        return {result.name: result for result in self.client.results(provider_id)}


@contextmanager
def world_of(provider: str, behaviour: Behaviour | None = None) -> Iterator[World]:
    with (
        running(Simulator(behaviour or Behaviour(batch_seconds=10))) as served,
        closing(batch_client(provider, account(provider, served.url))) as client,
    ):
        yield World(provider, served.simulator, client)


@dataclass
class Echo:
    """Says `status` and `body` to everything: with status 0 it hangs up, and with `silent` it says nothing until it
    closes. Bodies sent to it are lost."""

    url: str = ""
    status: int = 200
    body: bytes = b'{"id": "batch-1", "name": "batches/1"}'
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


@contextmanager
def echoing(**how: Any) -> Iterator[Echo]:
    echo = Echo(**how)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(echo))
    echo.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield echo
    finally:
        echo.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(echo: Echo) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            left = int(self.headers.get("content-length") or 0)
            while left:
                left -= len(self.rfile.read(min(left, 65536)))
            echo.asked.append((self.command, self.path, {name.lower(): text for name, text in self.headers.items()}))
            if echo.silent:
                echo.closing.wait(10)
            if echo.silent or not echo.status:
                self.close_connection = True
                return
            # What Gemini's uploads ask for, and nobody else looks at.
            final = "finalize" in self.headers.get("x-goog-upload-command", "")
            self.send_response(echo.status)
            self.send_header("x-goog-upload-url", f"{echo.url}/upload")
            self.send_header("x-goog-upload-status", "final" if final else "active")
            for name, text in echo.headers.items():
                self.send_header(name, text)
            body = b'{"file": {"name": "files/1"}}' if final else echo.body
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests look at `asked`."""

    return Handler
