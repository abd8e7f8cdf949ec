"""What a playbook has in `desk`, without Nightdesk: the same code, asking its provider as it would anywhere."""

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from nightdesk.canonical import Json, jsonable
from tests.support.hand import Body

_NAMES = {"openai": "openai-responses"}


class PlainDesk:
    def __init__(self) -> None:
        self._clients: list[Any] = []

    def http_client(self, *, sync: bool = False, library: str = "httpx2") -> Any:
        module: Any = httpx2 if library == "httpx2" else httpx
        client = module.Client(timeout=60) if sync else module.AsyncClient(timeout=60)
        self._clients.append(client)
        return client

    def model(self, name: str) -> Model:
        provider, _, model = name.partition(":")
        return infer_model(f"{_NAMES.get(provider, provider)}:{model}", self._provider)

    def tool(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    async def step(self, name: str, fn: Callable[..., Any], *args: Any) -> Any:
        return await fn(*args) if inspect.iscoroutinefunction(fn) else await asyncio.to_thread(fn, *args)

    async def close(self) -> None:
        for client in self._clients:
            if hasattr(client, "aclose"):
                await client.aclose()
            else:
                client.close()

    def _provider(self, name: str) -> Provider[Any]:
        made: Any = infer_provider_class(name)
        provider: Provider[Any] = made(http_client=self.http_client())
        return provider


def without_nightdesk(body: Body) -> Json:
    return jsonable(asyncio.run(_run(body)))


async def _run(body: Body) -> Any:
    desk: Any = PlainDesk()
    try:
        return await body(SimpleNamespace(name="plain"), desk)
    finally:
        await desk.close()
