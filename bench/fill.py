"""A long queue in seconds: one task is submitted, and its rows are copied."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bench.place import Scene
from nightdesk.intake import Submission, submit

_AT_ONCE = 5_000
_NAME = "the-first-one"


def fill(scene: Scene, count: int) -> None:
    """Queue so many drills, as so many submissions would have; their events are sealed."""
    first = submit(scene.house, Submission("drill", {"name": _NAME}), actor="bench").id
    for table in _tables(scene):
        with scene.house.db.write() as conn:
            row = conn.execute(sa.select(table).where(_names(table, first))).mappings().one()
            for start in range(1, count, _AT_ONCE):
                numbers = range(start, min(count, start + _AT_ONCE))
                conn.execute(table.insert(), [_copy(table.name, row, first, number) for number in numbers])
    scene.seal()
    if not scene.house.db.is_sqlite:
        with scene.house.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(sa.text("VACUUM ANALYZE"))  # as Postgres does by itself, in a minute or so


def _tables(scene: Scene) -> list[sa.Table]:
    """As the database has them, so that what is stored is copied as it is stored."""
    engine, found = scene.house.db.engine, sa.MetaData()
    schema = None if scene.house.db.is_sqlite else "dbos"
    own = [sa.Table(name, found, autoload_with=engine) for name in ("tasks", "events")]
    return own + [
        sa.Table(name, found, autoload_with=engine, schema=schema) for name in ("workflow_status", "workflow_input")
    ]


def _names(table: sa.Table, task_id: str) -> sa.ColumnElement[bool]:
    column = {"tasks": "id", "events": "task_id"}.get(table.name, "workflow_uuid")
    return table.c[column].startswith(task_id)


def _copy(table: str, row: Mapping[Any, Any], first: str, number: int) -> dict[str, Any]:
    """The row of the so-maniest task: its own id and name, one place further back in the line."""
    own = hashlib.sha256(str(number).encode()).hexdigest()[:32]
    copy = {name: _renamed(value, {first: own, _NAME: f"copy-{number}"}) for name, value in row.items()}
    match table:
        case "events":
            del copy["id"]
        case "tasks":
            copy["rank"] += number
        case "workflow_status":
            copy["priority"] += number
    return copy


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict | list):
        return json.loads(_renamed(json.dumps(value), names))
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value
