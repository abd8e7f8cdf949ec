"""What all calls of one worker share: the connection to providers, the keys it has seen, and what was learned."""

import os
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import httpx2

from nightdesk.canonical import canonical, digest
from nightdesk.guard.breakers import Latencies
from nightdesk.house import House
from nightdesk.model.estimates import Estimates
from nightdesk.model.providers import PROVIDERS
from nightdesk.model.providers.base import Account, BatchClient, Provider
from nightdesk.model.providers.batching import batch_client

_CONNECT_SECONDS = 10.0
# The shorter of the times for which Anthropic keeps a prefix, less a minute for the way.
_WARM = timedelta(seconds=240)
_MOST_WARM = 10_000
_CONNECTIONS = 200
# What is also needed to look at a batch: whose it is.
_OF_THE_ACCOUNT = ("anthropic-workspace-id", "openai-organization", "openai-project")


class ModelRoom:
    """Keys live here, in memory, and nowhere else: rows know a key by its fingerprint."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.estimates = Estimates(house.settings.model, house.clock)
        self.latencies = Latencies()
        self._client: httpx2.AsyncClient | None = None
        self._keys: dict[str, str] = {}
        self._warm: dict[str, datetime] = {}
        self._good_shapes: set[str] = set()
        self._clients: dict[tuple[str, ...], BatchClient] = {}
        self._lock = threading.Lock()

    @property
    def client(self) -> httpx2.AsyncClient:
        """For the loop that asks first, until `close`."""
        if self._client is None:
            self._client = _client(self.house)
        return self._client

    def fingerprint(self, provider: Provider, headers: Mapping[str, str]) -> str:
        """The name of the key that a request carries; the key itself is remembered for the batches."""
        key = provider.sent_key(headers) or ""
        return self._remember(key)

    def batches(self, batch: Mapping[Any, Any]) -> BatchClient | None:
        """The client for this batch, if this process has its key: from a request, or from the environment."""
        for name in PROVIDERS[batch["provider"]].key_variables:
            if found := os.environ.get(name):
                self._remember(found)
        key = self._keys.get(batch["credential"])
        if key is None:
            return None
        headers = {name: text for name, text in batch["headers"].items() if name in _OF_THE_ACCOUNT}
        named = (batch["provider"], batch["base_url"], batch["credential"], canonical(headers))
        with self._lock:
            if named not in self._clients:
                self._clients[named] = batch_client(batch["provider"], Account(batch["base_url"], key, headers))
            return self._clients[named]

    def answered(self, call: Mapping[str, Any], seconds: float, prefix_key: str) -> None:
        """A live or flex answer came after so long. Its prefix is now in the provider's cache for some minutes."""
        now = self.house.clock.now()
        self.latencies.note(now, call["provider"], call["model"], call["lane"], seconds)
        if len(self._warm) >= _MOST_WARM:
            self._warm = {key: at for key, at in self._warm.items() if self.is_recent(at)}
        if prefix_key:
            self._warm[prefix_key] = now

    def is_slow(self, call: Mapping[str, Any]) -> bool:
        """Whether one answer in twenty took too long of late, which is an outage too."""
        bound = self.house.settings.breakers.slow_seconds
        lane = call["lane"]
        return lane == "live" and self.latencies.slow(
            self.house.clock.now(), call["provider"], call["model"], lane, bound
        )

    def knows_shape(self, shape: str) -> bool:
        """Whether a request of this shape was answered, as far as this process knows."""
        return shape in self._good_shapes

    def learn_shape(self, shape: str) -> None:
        self._good_shapes.add(shape)

    def is_warm(self, prefix_key: str) -> bool:
        return self.is_recent(self._warm.get(prefix_key))

    def is_recent(self, at: datetime | None) -> bool:
        """Whether what was asked live at that moment is still in the provider's cache."""
        return at is not None and self.house.clock.now() - at < _WARM

    def soon(self) -> datetime:
        """When to look again at something that the other side says nothing of."""
        return self.house.clock.now() + timedelta(seconds=30)

    def _remember(self, key: str) -> str:
        fingerprint = digest("credential", key)[:12]
        self._keys.setdefault(fingerprint, key)
        return fingerprint

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()


def _client(house: House) -> httpx2.AsyncClient:
    """One pool of connections for all live requests. Redirects are not followed: a key goes where it was sent."""
    timeout = httpx2.Timeout(house.settings.model.timeout_seconds, connect=_CONNECT_SECONDS)
    limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
    return httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
