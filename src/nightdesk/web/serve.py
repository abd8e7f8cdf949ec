"""The web process: the application behind uvicorn, with bounds on what a connection may cost."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nightdesk.errors import NightdeskError
from nightdesk.house import House
from nightdesk.night.watches import watches
from nightdesk.watch.logs import get_logger
from nightdesk.web.app import create_app
from nightdesk.web.problems import Problem
from nightdesk.web.rooms import PATIENCE_SECONDS, Rooms

HEAD_SECONDS = 10.0
_HEAD_BYTES = 32_768
_KEEP_ALIVE_SECONDS = 5
_DRAIN_SECONDS = 5
MOST_CONNECTIONS = 1_000
_WATCH_SECONDS = 5
_BACKLOG = 512

log = get_logger(__name__)


class PatientProtocol(H11Protocol):
    """uvicorn waits for ever for the end of a request's head; this one does so for ten seconds."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(Problem(503, "unavailable", "Too many connections are open.", headers={"Retry-After": "2"}))
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._wait_for_head()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "bad-request", "The request is not HTTP that can be read."))

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            detail = f"The head of the request did not arrive within {HEAD_SECONDS:g} seconds."
            self._refuse(Problem(408, "request-timeout", detail))

    def _refuse(self, problem: Problem) -> None:
        """Write an answer past the application, which never saw the request, and hang up."""
        answer = problem.response()
        head = [b"HTTP/1.1 %d Refused" % problem.status, b"connection: close"]
        head += [b"%s: %s" % header for header in answer.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(answer.body)]))
        self.transport.close()


def run_web(house: House, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Port 0 takes a free one; the log says which."""
    listener = listen(host, port)
    server = make_server(house)
    host, port = listener.getsockname()[:2]
    log.info("The API is listening.", action="listening", address=_address(host, port))
    # uvicorn raises the signal that ended it once more when it has shut down; by then there is nothing to end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    services = watches(house)
    for service in services:
        service.start()
    server.run(sockets=[listener])
    for service in services:
        service.stop(wait_seconds=1)
    return 0


def make_server(house: House, patience_seconds: float = PATIENCE_SECONDS) -> uvicorn.Server:
    """The server, to be run on sockets."""
    rooms = Rooms(patience_seconds)
    config = uvicorn.Config(
        create_app(house, rooms),
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        callback_notify=_watchdog(rooms, house.settings.worker.stall_seconds),
        timeout_notify=_WATCH_SECONDS,
    )
    return uvicorn.Server(config)


def _watchdog(rooms: Rooms, stall_seconds: int) -> Callable[[], Awaitable[None]]:
    """Connections that fall silent hang their threads for ever; then only a new process helps."""

    async def look() -> None:
        if rooms.stuck_for() > stall_seconds:
            log.error("A call has hung for too long; the process ends itself.", action="watchdog")
            os._exit(1)

    return look


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Its protocol is named: asyncio turns Nagle's delay off only where it knows TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener
    except OSError as error:
        listener.close()
        raise NightdeskError(
            f"Cannot listen on {_address(host, port)}: {error.strerror}.", "Choose another port."
        ) from None


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
