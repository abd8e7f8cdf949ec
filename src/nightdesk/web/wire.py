"""Layers around the application: request bodies under limits of size and time, and a count of what was answered."""

import asyncio
import time
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nightdesk.watch.metrics import Metrics
from nightdesk.web.problems import Problem

BODY_SECONDS = 10.0
# After a refusal, what the client still sends is read and dropped for a moment: a connection closed on unread
# data is reset, and the reset can overtake the answer.
_LINGER_SECONDS = 1.0
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class BodyGuard:
    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            exchange = _Exchange(scope, receive, send, self._max_bytes, self._seconds)
            receive, send = exchange.receive, exchange.send
        await self._app(scope, receive, send)


class _Exchange:
    """One request and its answer. The body is read when the application asks for it, not before."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_bytes: int, seconds: float) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._seconds = seconds
        headers = dict(scope["headers"])
        self._announced = int(headers.get(b"content-length", 0))
        self._has_end = b"transfer-encoding" not in headers
        self._deadline: float | None = None
        self._size = 0
        self._complete = self._has_end and self._announced == 0
        self._closing = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        if self._announced > self._max_bytes:
            raise self._too_large()
        message = await self._in_time()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        if self._size > self._max_bytes:
            self._has_end = False
            raise self._too_large()
        return message

    async def _in_time(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            self._has_end = False
            detail = f"The body did not arrive within {self._seconds:g} seconds."
            raise Problem(408, "request-timeout", detail, "Send it in one go.") from None

    def _too_large(self) -> Problem:
        detail = f"The body is larger than {self._max_bytes} bytes."
        return Problem(413, "too-large", detail, "Send less at once, or raise max_body_bytes in [api].")

    async def send(self, message: Message) -> None:
        """Pass the answer on. With a body that may never end still on its way, the connection is then closed."""
        if message["type"] == "http.response.start" and not self._complete:
            self._closing = not self._has_end or self._announced > self._max_bytes
            if self._closing:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        elif self._closing and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                message = await self._receive()
                while message["type"] == "http.request" and message.get("more_body", False):
                    message = await self._receive()


class Counter:
    """Counts requests by route, not by path: a path may hold anything."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began = time.monotonic()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.answered(route, method, status, time.monotonic() - began)
