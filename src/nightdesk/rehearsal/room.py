"""What legs of a rehearsal ask models through: the simulator alone, and without waiting for it."""

from collections.abc import Mapping
from typing import Any

import httpx2

from nightdesk.house import House
from nightdesk.model.providers.base import BatchClient, Refused
from nightdesk.model.room import ModelRoom
from nightdesk.model.simulator import Running
from nightdesk.rehearsal.clock import JumpingClock

_ELSEWHERE = "a rehearsal asks nobody but the simulator, and this address is another's: take it out of the playbook"


class SimulatedRoom(ModelRoom):
    def __init__(self, house: House, clock: JumpingClock, served: Running, latency: float) -> None:
        super().__init__(house)
        self._clock = clock
        self._served = served
        self._latency = latency

    @property
    def client(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = _Client(self._served, self._clock, self.house.settings.model.timeout_seconds)
        return self._client

    def batches(self, batch: Mapping[Any, Any]) -> BatchClient | None:
        if not batch["base_url"].startswith(self._served.url):
            raise Refused(_ELSEWHERE, "invalid")
        return super().batches(batch)

    def answered(self, call: Mapping[str, Any], seconds: float, prefix_key: str) -> None:
        self._clock.takes(call["task_id"], self._latency)
        super().answered(call, self._latency, prefix_key)


class _Client(httpx2.AsyncClient):
    """A request that is to hang has hung at once, by a clock that says for how long."""

    def __init__(self, served: Running, clock: JumpingClock, patience_seconds: float) -> None:
        super().__init__(trust_env=False)
        self._url = served.url
        self._faults = served.simulator.faults
        self._clock = clock
        self._patience = patience_seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if not str(request.url).startswith(self._url):
            raise httpx2.ConnectError(_ELSEWHERE, request=request)
        if self._faults.take("hang", _provider_at(request.url.path)):
            await self._clock.sleep(self._patience)
            raise httpx2.ReadTimeout("It was told to hang.", request=request)
        return await super().send(request, **options)


def _provider_at(path: str) -> str:
    if path.endswith("/messages"):
        return "anthropic"
    return "gemini" if ":" in path else "openai"
