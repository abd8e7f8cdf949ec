"""A transport that answers as Nightdesk does: what the SDK sends is recognised, and told back whole or as a stream."""

import json
from collections.abc import Callable

import httpx2

from nightdesk.canonical import Json
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers import find, recognise

Answers = Callable[[Ask], Json]


def neutral(request: httpx2.Request, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return HttpRequest(request.method, str(request.url), headers, body)


class Answering(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """`answers` are given one after the other, the last one again and again."""

    def __init__(self, *answers: Json, status: int = 200) -> None:
        self._answers = answers
        self._status = status
        self.asks: list[Ask] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._answer(request, request.read())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._answer(request, await request.aread())

    def _answer(self, request: httpx2.Request, body: bytes) -> httpx2.Response:
        ask = recognise(neutral(request, body))
        assert ask is not None, f"{request.method} {request.url} was not recognised"
        answer = self._answers[min(len(self.asks), len(self._answers) - 1)]
        self.asks.append(ask)
        headers = {"content-type": "application/json", "x-should-retry": "false"}
        if self._status != 200:
            return httpx2.Response(self._status, headers=headers, content=json.dumps(answer).encode())
        provider = find(ask.provider)
        completed = provider.completed(ask, answer)
        if not ask.streamed:
            return httpx2.Response(200, headers=headers, content=json.dumps(completed).encode())
        headers["content-type"] = "text/event-stream"
        return httpx2.Response(200, headers=headers, content=provider.stream(ask, completed))


def post(url: str, body: Json, **headers: str) -> HttpRequest:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("POST", url, names, json.dumps(body).encode())


def asked(url: str, body: Json, **headers: str) -> Ask:
    ask = recognise(post(url, body, **headers))
    assert ask is not None
    return ask
