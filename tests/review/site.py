"""A site on this machine that behaves as pages on the web do: well, badly, slowly and without end."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from nightdesk.guard.egress import Egress

PAGES = {
    "/": (200, "<html><head><title>Socks</title></head><body>fine</body></html>"),
    "/missing": (404, "<title>Not found</title>"),
    "/soft": (200, "<html><TITLE lang=en>Error 404 &#8211; Page not found</TITLE></html>"),
    "/broken": (500, "oops"),
    "/latin": (200, "<title>Stra\xdfe</title>"),
}


@dataclass
class Site:
    """`asked` are the paths that were asked for, in order; `names` stand for this machine in the guard's eyes."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)

    def egress(self, **limits: object) -> Egress:
        """As it is in the world, but that `names` are found here, and that this machine's address is let through."""

        async def resolve(host: str, _port: int) -> list[str]:
            return self.names.get(host, ["127.0.0.1"])

        guard = Egress(
            ports=frozenset({self.port}), resolve=resolve, permits=lambda address: str(address) == "127.0.0.1"
        )
        return replace(guard, **limits)  # type: ignore[arg-type]

    def url(self, path: str, host: str = "shop.example") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            self.asked.append(path)
            await self._answer(path, head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, head: str, writer: asyncio.StreamWriter) -> None:
        if path in PAGES:
            status, body = PAGES[path]
            _write(writer, status, body.encode("latin-1"))
        elif path.startswith("/hop/"):
            number = int(path.rpartition("/")[2])
            _write(writer, 302, b"", f"location: /hop/{number - 1}" if number else "location: /")
        elif path.startswith("/to/"):
            _write(writer, 302, b"", "location: " + path.removeprefix("/to/"))
        elif path == "/host":
            name = next(line for line in head.splitlines() if line.lower().startswith("host:"))
            _write(writer, 200, f"<title>{name}</title>".encode())
        elif path in _ODD:
            await _ODD[path](writer)


async def _loop(writer: asyncio.StreamWriter) -> None:
    _write(writer, 301, b"", "location: /loop")


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
    for _ in range(10_000):
        writer.write(b"<script>var x;</script>" * 100)
        await writer.drain()


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(1_000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _garbage(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff not http at all\r\n\r\n")


async def _bomb(writer: asyncio.StreamWriter) -> None:
    _write(writer, 200, b"\x1f\x8b" + b"\x00" * 100, "content-encoding: gzip")


_ODD = {"/loop": _loop, "/endless": _endless, "/drip": _drip, "/garbage": _garbage, "/bomb": _bomb}


@contextmanager
def served() -> Iterator[Site]:
    site = Site()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(site.serve, "127.0.0.1", 0))
    site.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _write(writer: asyncio.StreamWriter, status: int, body: bytes, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
