"""The HTTP transports that carry the requests of SDKs to the asker: async and sync, for httpx2 and for httpx."""

from typing import Any, Protocol

import httpx2

from nightdesk.errors import NightdeskError
from nightdesk.model.asks import HttpAnswer, HttpRequest


class Carrier(Protocol):
    async def ask(self, request: HttpRequest) -> HttpAnswer: ...

    def ask_from_thread(self, request: HttpRequest) -> HttpAnswer: ...


class AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._carrier.ask(_neutral(request, await request.aread()))
        return httpx2.Response(answer.status, headers=dict(answer.headers), content=answer.body)


class SyncTransport(httpx2.BaseTransport):
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._carrier.ask_from_thread(_neutral(request, request.read()))
        return httpx2.Response(answer.status, headers=dict(answer.headers), content=answer.body)


def http_client(carrier: Carrier, *, sync: bool, library: str) -> Any:
    """A client whose requests go to the carrier. It has no time limit of its own: a call may be held for hours."""
    if library == "httpx2":
        if sync:
            return httpx2.Client(transport=SyncTransport(carrier), timeout=None)
        return httpx2.AsyncClient(transport=AsyncTransport(carrier), timeout=None)
    if library == "httpx":
        return _old_client(carrier, sync=sync)
    raise NightdeskError(f"desk.http_client knows no library {library!r}.", 'Choose "httpx2" or "httpx".')


def _old_client(carrier: Carrier, *, sync: bool) -> Any:
    """The same for SDKs of before httpx2. httpx is imported for those alone."""
    import httpx

    class OldAsync(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await carrier.ask(_neutral(request, await request.aread()))
            return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)

    class OldSync(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = carrier.ask_from_thread(_neutral(request, request.read()))
            return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)

    if sync:
        return httpx.Client(transport=OldSync(), timeout=None)  # nosec B113: a call may be held for hours
    return httpx.AsyncClient(transport=OldAsync(), timeout=None)  # nosec B113: the same


def _neutral(request: Any, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return HttpRequest(request.method, str(request.url), headers, body)
