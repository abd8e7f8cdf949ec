"""Idempotency keys: a request that is sent again gets the first answer, and does nothing.

As in draft-ietf-httpapi-idempotency-key-header. The answer is kept in the transaction of what it reports, so
there is never one without the other; a request that fails leaves its key unused.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import NightdeskError
from nightdesk.house import House
from nightdesk.store import requests


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Json
    replayed: bool = False


class KeyReused(NightdeskError):
    """The key came before with another request."""


class StillRunning(NightdeskError):
    """The first request with this key has not been answered yet."""


class Requests:
    """The answers given so far, by tenant and key."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._lock = threading.Lock()
        self._running: set[tuple[str, str]] = set()

    def once(self, tenant: str, key: str, fingerprint: str, work: Callable[[sa.Connection], Answer]) -> Answer:
        """Do `work` unless this key was answered before; `fingerprint` tells whether it is the same request."""
        db = self._house.db
        with self._alone(tenant, key), db.write() as conn:
            if not db.try_lock(conn, f"request:{tenant}:{key}"):
                raise _still_running()
            earlier = self._earlier(conn, tenant, key, fingerprint)
            if earlier is not None:
                return earlier
            answer = work(conn)
            self._keep(conn, tenant, key, fingerprint, answer)
            return answer

    @contextmanager
    def _alone(self, tenant: str, key: str) -> Iterator[None]:
        """Within this process the second is refused at once; between processes the lock in the database tells."""
        with self._lock:
            if (tenant, key) in self._running:
                raise _still_running()
            self._running.add((tenant, key))
        try:
            yield
        finally:
            with self._lock:
                self._running.discard((tenant, key))

    def _earlier(self, conn: sa.Connection, tenant: str, key: str, fingerprint: str) -> Answer | None:
        query = sa.select(requests).where(requests.c.tenant == tenant, requests.c.key == key)
        row = conn.execute(query).one_or_none()
        if row is None or row.expires_at <= self._house.clock.now():
            return None
        if row.fingerprint != fingerprint:
            raise KeyReused("This Idempotency-Key came before with another request.", "Use a new key for a new task.")
        return Answer(row.status, row.headers, row.body, replayed=True)

    def _keep(self, conn: sa.Connection, tenant: str, key: str, fingerprint: str, answer: Answer) -> None:
        now = self._house.clock.now()
        kept = {
            "fingerprint": fingerprint,
            "status": answer.status,
            "headers": answer.headers,
            "body": answer.body,
            "expires_at": now + timedelta(hours=self._house.settings.api.idempotency_hours),
        }
        insert = self._house.db.upsert(requests).values(tenant=tenant, key=key, **kept)
        conn.execute(insert.on_conflict_do_update(index_elements=["tenant", "key"], set_=kept))


def _still_running() -> StillRunning:
    return StillRunning("The first request with this Idempotency-Key is still being answered.", "Try again shortly.")
