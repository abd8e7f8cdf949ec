"""A TCP proxy on loopback that can do to connections what networks do."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from tests.support.postgres import free_port

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards `port` to the target's port. `latency_seconds` delays each piece of data on its way.

    What is done to connections: `reset` breaks those that exist, `refuse` turns new ones away, `silence` leaves
    them open but lets nothing through; `heal` undoes the last two, and what was held back arrives after all, as
    after a partition of a network.
    """

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.latency_seconds = 0.0
        self._target_port = target_port
        self._links: set[_Link] = set()
        self._silent = False
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connections(self) -> int:
        return len(self._links)

    def reset(self) -> None:
        """Existing connections end with a reset, on both sides."""
        self._do(self._reset())

    def refuse(self) -> None:
        """New connections are refused; existing ones go on."""
        self._do(self._refuse())

    def silence(self, *, new: bool = False) -> None:
        """Existing connections fall silent; with `new`, later ones are accepted and say nothing either."""
        self._do(self._silence(new))

    def heal(self) -> None:
        self._do(self._heal())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _reset(self) -> None:
        for link in list(self._links):
            link.reset()
        self._links.clear()
        await asyncio.sleep(0)  # let the transports close

    async def _silence(self, new: bool) -> None:
        self._silent = new
        for link in self._links:
            link.flowing.clear()

    async def _heal(self) -> None:
        self._silent = False
        for link in self._links:
            link.flowing.set()
        await self._listen()

    async def _close(self) -> None:
        await self._refuse()
        await self._reset()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, target_writer)
        if self._silent:
            link.flowing.clear()
        self._links.add(link)
        try:
            await asyncio.gather(self._pump(link, reader, target_writer), self._pump(link, target_reader, writer))
        finally:
            link.close()
            self._links.discard(link)

    async def _pump(self, link: "_Link", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes until it ends; the end is passed on too."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.latency_seconds:
                    await asyncio.sleep(self.latency_seconds)
                await link.flowing.wait()
                writer.write(data)
                await writer.drain()
            await link.flowing.wait()
        link.close()


class _Link:
    """One connection through the proxy: its two sides, and whether data flows."""

    def __init__(self, *sides: asyncio.StreamWriter) -> None:
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._sides = sides

    def reset(self) -> None:
        for side in self._sides:
            side.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            side.transport.abort()

    def close(self) -> None:
        for side in self._sides:
            side.close()
