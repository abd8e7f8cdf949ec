"""The simulator behind uvicorn: in a thread for tests and demonstrations, or as a process of its own."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import uvicorn
from starlette.applications import Starlette

from nightdesk.canonical import Json
from nightdesk.errors import NightdeskError
from nightdesk.model.simulator.app import create_app
from nightdesk.model.simulator.state import State

# No key of anyone's: the SDKs refuse to start without one, and the simulator takes any.
FAKE_KEY = "simulated"  # pragma: allowlist secret
_BACKLOG = 512
_DRAIN_SECONDS = 1
_START_SECONDS = 10.0


class Simulator(State):
    """The simulated providers: `app` is what speaks HTTP, everything else may be read and set at any time."""

    @cached_property
    def app(self) -> Starlette:
        return create_app(self)

    def report(self, items: bool = False) -> dict[str, Json]:
        """The bill, with all batches that have ended until now."""
        self.shelf.settle_now()
        return self.meter.report(items)

    def advance(self, seconds: float) -> None:
        """Move the clock forward: batches get older by that much."""
        self.advanced += seconds


@dataclass(frozen=True)
class Running:
    url: str
    simulator: Simulator


@contextmanager
def running(simulator: Simulator, port: int = 0, host: str = "127.0.0.1") -> Iterator[Running]:
    """Serve it from a thread as long as the context lasts. Port 0 takes a free one."""
    listener = listen(host, port)
    server = make_server(simulator)
    thread = threading.Thread(target=server.run, args=([listener],), name="simulator", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield Running(address(listener), simulator)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def serve(simulator: Simulator, listener: socket.socket, announce: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT, also if that comes as soon as it is announced."""
    server = make_server(simulator)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn has handlers of its own while it runs, and then raises once more the signal that ended it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    announce()
    server.run(sockets=[listener])


def make_server(simulator: Simulator) -> uvicorn.Server:
    config = uvicorn.Config(
        simulator.app,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # connections that break off are among the faults that it is asked for
        access_log=False,
        server_header=False,
        date_header=False,  # the time is that of the simulator's clock
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise NightdeskError(
            f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another host or port."
        ) from None
    return listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def environment(url: str) -> dict[str, str]:
    """The variables with which the official SDKs talk to the simulator at this address."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": FAKE_KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": FAKE_KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": FAKE_KEY,
    }


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > give_up:
            raise NightdeskError("The simulator did not start.")
        time.sleep(0.005)
