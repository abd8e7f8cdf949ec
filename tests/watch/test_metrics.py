"""Metrics tell what was counted and what the database holds, and a scrape never fails for the database's sake."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from nightdesk.clock import SetClock
from nightdesk.store import Database, open_database, slots, tasks
from nightdesk.watch.courier import post
from nightdesk.watch.events import record
from nightdesk.watch.metrics import Metrics


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    families = text_string_to_metric_families(metrics.render().decode())
    samples = (sample for family in families for sample in family.samples)
    return next((s.value for s in samples if (s.name, s.labels) == (f"nightdesk_{name}", labels)), None)


def _add_task(db: Database, clock: SetClock, key: str, state: str, **values: Any) -> None:
    row = {"id": key, "playbook": "drill", "tenant": "main", "key": key, "playbook_version": "1", "state": state}
    moments = {"created_at": clock.now(), "updated_at": clock.now()}
    with db.write() as conn:
        conn.execute(tasks.insert(), {**row, **moments, "priority": 2, "input": {}, **values})


def test_tasks_are_counted_by_state(db: Database, clock: SetClock) -> None:
    _add_task(db, clock, "a", "queued")
    clock.advance(90)
    _add_task(db, clock, "b", "queued")
    _add_task(db, clock, "c", "done", ended_at=clock.now())
    metrics = Metrics(db, clock)
    assert [_value(metrics, "tasks", state=state) for state in ("queued", "done", "dead")] == [2, 1, 0]
    assert _value(metrics, "oldest_queued_seconds") == 90
    assert _value(metrics, "database_up") == 1


def test_backlogs_and_workers_are_counted(db: Database, clock: SetClock) -> None:
    lease = clock.now() + timedelta(seconds=15)
    with db.write() as conn:
        record(conn, clock.now(), "trial", cause="test", actor="test")
        post(conn, clock.now(), "callback", "http://a", {"n": 1})
        conn.execute(slots.insert(), {"name": "e1", "epoch": 1, "holder": "h", "expires_at": lease})
        conn.execute(slots.insert(), {"name": "e2", "epoch": 1})
    metrics = Metrics(db, clock)
    counted = [_value(metrics, name) for name in ("events_unsealed", "notices_undelivered", "workers_live")]
    assert counted == [1, 1, 1]
    clock.advance(15)
    assert _value(metrics, "workers_live") == 0


def test_the_database_is_asked_every_five_seconds_at_most(db: Database, clock: SetClock) -> None:
    metrics = Metrics(db, clock)
    assert _value(metrics, "tasks", state="queued") == 0
    _add_task(db, clock, "a", "queued")
    clock.advance(4.9)
    assert _value(metrics, "tasks", state="queued") == 0
    clock.advance(0.1)
    assert _value(metrics, "tasks", state="queued") == 1


def test_submissions_and_requests_are_counted(db: Database, clock: SetClock) -> None:
    metrics = Metrics(db, clock)
    metrics.submitted("drill", "new")
    metrics.submitted("drill", "new")
    metrics.answered("/v1/tasks", "POST", 202, 0.02)
    assert _value(metrics, "submissions_total", playbook="drill", outcome="new") == 2
    assert _value(metrics, "http_requests_total", route="/v1/tasks", method="POST", status="202") == 1
    assert _value(metrics, "http_request_seconds_sum", route="/v1/tasks", method="POST") == 0.02


def test_two_registries_do_not_mix(db: Database, clock: SetClock) -> None:
    Metrics(db, clock).submitted("drill", "new")
    assert _value(Metrics(db, clock), "submissions_total", playbook="drill", outcome="new") is None


def test_a_scrape_outlives_the_database(clock: SetClock) -> None:
    away = open_database("postgresql://127.0.0.1:1/none", patience_seconds=1)
    metrics = Metrics(away, clock)
    metrics.submitted("drill", "refused")
    assert _value(metrics, "database_up") == 0
    assert _value(metrics, "submissions_total", playbook="drill", outcome="refused") == 1
    assert _value(metrics, "tasks", state="queued") is None
    away.close()


def test_it_recovers_with_the_database(db: Database, clock: SetClock) -> None:
    metrics = Metrics(db, clock)
    _rename(db, "slots", "aside")
    assert _value(metrics, "database_up") == 0
    _rename(db, "aside", "slots")
    clock.advance(5)
    assert _value(metrics, "database_up") == 1


@pytest.mark.parametrize("route", ["/v1/tasks/{id}", 'a"b\n\\'])
def test_odd_labels_are_written_well(db: Database, clock: SetClock, route: str) -> None:
    metrics = Metrics(db, clock)
    metrics.answered(route, "GET", 200, 0.1)
    assert _value(metrics, "http_requests_total", route=route, method="GET", status="200") == 1


def _rename(db: Database, table: str, name: str) -> None:
    with db.write() as conn:
        conn.execute(sa.text(f"ALTER TABLE {table} RENAME TO {name}"))
