"""The house once more, with a database of its own: the same settings, playbooks and open tasks, simulated models."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.errors import NightdeskError
from nightdesk.guard.purses import local_day, night_of
from nightdesk.house import House, open_house
from nightdesk.model.simulator import environment
from nightdesk.rehearsal.plan import Plan
from nightdesk.store import budgets, switches, tasks

# A task that waits for a person waits through the night too.
_IS_OPEN = tasks.c.state.in_(("queued", "planned")) | ((tasks.c.state == "waiting") & (tasks.c.waiting_for != "person"))
_KEPT = (
    "id", "playbook", "playbook_version", "tenant", "key", "version", "priority", "input", "created_at", "not_before",
    "expires_at",
)  # fmt: skip
_ROWS_AT_ONCE = 500


@contextmanager
def copied(house: House, plan: Plan, folder: Path, clock: Clock, simulator_url: str) -> Iterator[House]:
    """Playbooks run where they lie, so that they find what lies beside them; the database is in the folder."""
    url = f"sqlite:///{folder / 'nightdesk.db'}"
    direct = dict.fromkeys(("no_proxy", "NO_PROXY"), "*")
    with _environment(environment(simulator_url) | direct | {"NIGHTDESK_DATABASE_URL": url}):
        copy = open_house(house.home, clock=clock)
        try:
            _bring_in(house, copy, plan)
            yield copy
        finally:
            copy.close()


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _bring_in(house: House, copy: House, plan: Plan) -> None:
    """The open tasks, from their beginning; the switches; and what today's and tonight's budgets have paid already."""
    found = _open_tasks(house, plan)
    if not found:
        raise NightdeskError("Nothing is open that could be rehearsed.", "Add tasks first: nightdesk add")
    today, tonight = local_day(house.settings, plan.start), night_of(house.settings, plan.start)
    current = (budgets.c.day == today) | ((budgets.c.scope == "night") & (budgets.c.name == tonight))
    unlike_here = {"reserved_micros": 0, "asked_at": None}
    with house.db.read() as conn:
        paid = [dict(row) | unlike_here for row in conn.execute(sa.select(budgets).where(current)).mappings()]
        switched = [dict(row) for row in conn.execute(sa.select(switches)).mappings()]
    with copy.db.write() as conn:
        for table, rows in ((budgets, paid), (switches, switched), (tasks, found)):
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                conn.execute(table.insert(), rows[first : first + _ROWS_AT_ONCE])


def _open_tasks(house: House, plan: Plan) -> list[dict[str, Any]]:
    """The most urgent first."""
    chosen = sa.select(*(tasks.c[name] for name in _KEPT)).where(_IS_OPEN)
    if plan.playbook is not None:
        chosen = chosen.where(tasks.c.playbook == house.registry.get(plan.playbook).name)
    query = chosen.order_by(tasks.c.priority, tasks.c.created_at, tasks.c.id).limit(plan.most)
    as_new = {"state": "queued", "updated_at": plan.start}
    with house.db.read() as conn:
        return [dict(row) | as_new for row in conn.execute(query).mappings()]
