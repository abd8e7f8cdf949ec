"""The migrations, one after the other, make exactly the schema that the code expects."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from nightdesk import store
from nightdesk.store import Database, metadata, migrate, open_database, pending_migrations
from nightdesk.store.migrate import HEAD

_AT_ONCE = 4


@pytest.fixture
def database(empty_database_url: str) -> Iterator[Database]:
    opened = open_database(empty_database_url)
    yield opened
    opened.close()


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(store.__file__).with_name("migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_migrations_leave_nothing_to_migrate(database: Database) -> None:
    migrate(database)
    with database.read() as conn:
        assert compare_metadata(MigrationContext.configure(conn), metadata) == []


def test_migrations_make_the_schema_of_the_metadata(database: Database) -> None:
    """Constraints and partial indexes too, which Alembic does not compare."""
    migrate(database)
    migrated = _schema(database)
    with database.write() as conn:
        metadata.drop_all(conn)
        metadata.create_all(conn)
    assert migrated == _schema(database)


def test_migrating_again_changes_nothing(database: Database) -> None:
    migrate(database)
    before = _schema(database)
    migrate(database)
    assert _schema(database) == before


def test_threads_that_migrate_together_migrate_once(empty_database_url: str) -> None:
    def run(_: int) -> bool:
        opened = open_database(empty_database_url)
        migrate(opened)
        pending = pending_migrations(opened)
        opened.close()
        return pending

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        assert list(pool.map(run, range(_AT_ONCE))) == [False] * _AT_ONCE


def test_processes_that_prepare_a_house_together_prepare_it_once(empty_database_url: str) -> None:
    program = (
        "import sys; from nightdesk.engine import prepare; from nightdesk.store import migrate, open_database;"
        "prepare(sys.argv[1]); migrate(open_database(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, empty_database_url]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(_AT_ONCE)]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in started]
    assert [(code, errors) for errors, code in ended if code != 0] == []


def _schema(database: Database) -> dict[str, Any]:
    inspector = sa.inspect(database.engine)
    return {name: _table(inspector, name) for name in metadata.tables}


def _table(inspector: sa.Inspector, name: str) -> dict[str, list[str]]:
    """Everything the database knows of the table, in an order that does not depend on how it was made."""
    return {
        "columns": sorted(map(_plain, inspector.get_columns(name))),
        "key": [_plain(inspector.get_pk_constraint(name))],
        "checks": sorted(map(_plain, inspector.get_check_constraints(name))),
        "unique": sorted(map(_plain, inspector.get_unique_constraints(name))),
        "foreign": sorted(map(_plain, inspector.get_foreign_keys(name))),
        "indexes": sorted(map(_plain, inspector.get_indexes(name))),
    }


def _plain(found: Any) -> str:
    if isinstance(found, dict):
        return str([(key, _plain(value)) for key, value in sorted(found.items())])
    return str(found)
