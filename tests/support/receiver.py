"""A real HTTP server on loopback that keeps what it is sent and answers as it is told."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Delivery:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers each delivery with `answer(delivery)`: a status, or None to stay silent until the receiver closes."""

    url: str = ""
    answer: Callable[[Delivery], int | None] = lambda _: 200
    deliveries: list[Delivery] = field(default_factory=list)
    endless: bool = False
    closing: threading.Event = field(default_factory=threading.Event)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # the default of five would refuse connections that come at once


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    server = _Server(("127.0.0.1", 0), _handler(receiver))
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            delivery = Delivery(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            receiver.deliveries.append(delivery)
            status = receiver.answer(delivery)
            if status is None:
                self._drip()
                return
            self.send_response(status)
            self.send_header("location", f"{receiver.url}/elsewhere")
            self.end_headers()
            while receiver.endless and self._write(b"x" * 65536):
                pass

        def _drip(self) -> None:
            """A byte now and then: enough to keep a limit on each read from ending it."""
            alive = self._write(b"HTTP/1.1 200 OK\r\nx-slow: ")
            while alive and not receiver.closing.wait(0.02):
                alive = self._write(b"x")

        def _write(self, data: bytes) -> bool:
            try:
                self.wfile.write(data)
            except OSError:
                return False
            return True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests look at `deliveries`."""

    return Handler
