"""Metrics in Prometheus's text format: what this process counted, and what the database says of the house."""

import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from nightdesk.clock import Clock
from nightdesk.store import Database, events, notices, slots, tasks
from nightdesk.store.tables import STATES

_FRESH = timedelta(seconds=5)


class Metrics:
    """One process's registry. Routes and playbooks become labels: give templates and known names only."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._registry = CollectorRegistry()
        self._submissions = Counter(
            "nightdesk_submissions", "Tasks submitted.", ("playbook", "outcome"), registry=self._registry
        )
        self._requests = Counter(
            "nightdesk_http_requests", "HTTP requests answered.", ("route", "method", "status"), registry=self._registry
        )
        self._durations = Histogram(
            "nightdesk_http_request_seconds", "Time to answer a request.", ("route", "method"), registry=self._registry
        )
        self._registry.register(_HouseCollector(db, clock))

    def submitted(self, playbook: str, outcome: str) -> None:
        self._submissions.labels(playbook, outcome).inc()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, str(status)).inc()
        self._durations.labels(route, method).observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _HouseCollector(Collector):
    """Asks the database at most every five seconds; while it is away, says so and nothing else."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: datetime | None = None
        self._gauges: list[GaugeMetricFamily] = []

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: so that registering does not ask the database."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        with self._lock:
            now = self._clock.now()
            if self._read_at is None or now - self._read_at >= _FRESH:
                self._gauges = self._read(now)
                self._read_at = now
            return self._gauges

    def _read(self, now: datetime) -> list[GaugeMetricFamily]:
        try:
            with self._db.read() as conn:
                return [_gauge("database_up", "Whether the database answers.", 1), *_house_gauges(conn, now)]
        except sa.exc.SQLAlchemyError:
            return [_gauge("database_up", "Whether the database answers.", 0)]


def _house_gauges(conn: sa.Connection, now: datetime) -> list[GaugeMetricFamily]:
    rows = conn.execute(sa.select(tasks.c.state, sa.func.count().label("number")).group_by(tasks.c.state))
    counted = {row.state: row.number for row in rows}
    by_state = GaugeMetricFamily("nightdesk_tasks", "Tasks by state.", labels=("state",))
    for state in STATES:
        by_state.add_metric((state,), counted.get(state, 0))
    oldest = conn.execute(sa.select(sa.func.min(tasks.c.created_at)).where(tasks.c.state == "queued")).scalar()
    age = (now - oldest).total_seconds() if oldest else 0
    unsealed = _count(conn, events.c.seal_seq.is_(None))
    undelivered = _count(conn, notices.c.delivered_at.is_(None) & notices.c.next_at.is_not(None))
    live = _count(conn, slots.c.expires_at > now)
    return [
        by_state,
        _gauge("oldest_queued_seconds", "Age of the oldest queued task.", age),
        _gauge("events_unsealed", "Events not yet in the audit chain.", unsealed),
        _gauge("notices_undelivered", "Notices not yet acknowledged.", undelivered),
        _gauge("workers_live", "Workers whose lease runs.", live),
    ]


def _count(conn: sa.Connection, where: sa.ColumnElement[bool]) -> int:
    return conn.execute(sa.select(sa.func.count()).where(where)).scalar_one()


def _gauge(name: str, documentation: str, value: Any) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"nightdesk_{name}", documentation, value=value)
