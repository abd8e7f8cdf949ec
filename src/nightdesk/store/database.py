"""Connections and transactions, the same on both databases."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeout

from nightdesk.errors import NightdeskError
from nightdesk.store.writer import GroupWriter

T = TypeVar("T")

# The corruption race of WAL with several connections was mended in these releases.
_WAL_IS_SAFE = (3, 51, 3)
# Postgres: 08 connection, 53 out of disk, memory or connections, 57P shutdown, 40 serialization and deadlock,
# 55P03 lock timeout, 25006 read-only standby, 25P03 ended for idling in a transaction.
_OUTAGE_STATES = ("08", "53", "57P", "40", "55P03", "25006", "25P03")
_GIVE_AN_ADDRESS = "Give a sqlite:/// or postgresql:// address in nightdesk.toml or NIGHTDESK_DATABASE_URL."
_OUTAGE_TEXTS = ("database is locked", "disk is full", "disk i/o error", "unable to open database file", "readonly")


class Database:
    """Transactions over one engine. `read` and `write` are for a thread; `commit` is for async code."""

    def __init__(self, engine: sa.Engine, patience_seconds: int) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._patience = patience_seconds
        self._turn = threading.Lock()
        self._writer = GroupWriter(self.write, is_outage, threads=1 if self.is_sqlite else 4)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with self.engine.connect().execution_options(nightdesk_read=True) as conn:
            yield conn

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        with self._own_turn(), self.engine.begin() as conn:
            yield conn

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """SQLite has one writer at a time and lets the others poll for it, so that some wait for seconds while
        others pass. Within a process they queue here instead."""
        if not self.is_sqlite:
            yield
            return
        if not self._turn.acquire(timeout=self._patience):
            raise PoolTimeout("the database is locked by another writer of this process")
        try:
            yield
        finally:
            self._turn.release()

    async def commit(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a transaction shared with other waiting writes; return once it is on disk.

        While the database is away it waits and tries again, so `work` must bear being run twice.
        """
        return await self._writer.run(work)

    def stalled_for(self) -> float:
        """Seconds for which the oldest grouped write has been waiting."""
        return self._writer.stalled_for()

    def upsert(self, table: sa.Table) -> Any:
        return upsert(self.engine.dialect.name, table)

    def now(self, conn: sa.Connection) -> datetime:
        """The database's own clock, which every machine of the house shares."""
        if self.is_sqlite:
            return datetime.now(UTC)
        moment: datetime = conn.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def lock(self, conn: sa.Connection, name: str) -> None:
        """Hold the named lock until the transaction ends. SQLite's writers are alone as it is."""
        if not self.is_sqlite:
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})

    def try_lock(self, conn: sa.Connection, name: str) -> bool:
        """Take the named lock until the transaction ends, or say that another has it."""
        if self.is_sqlite:
            return True
        query = sa.text("SELECT pg_try_advisory_xact_lock(hashtext(:name))")
        return bool(conn.execute(query, {"name": name}).scalar_one())

    def close(self) -> None:
        self._writer.close()
        self.engine.dispose()


def upsert(dialect: str, table: sa.Table) -> Any:
    """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)
    from sqlalchemy.dialects.postgresql import insert as postgres_insert

    return postgres_insert(table)


def open_database(url: str, *, pooled: bool = True, patience_seconds: int = 30) -> Database:
    """Open the database at `url`. `patience_seconds` bounds connecting, lock waits and single statements."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise NightdeskError("The database address cannot be read.", _GIVE_AN_ADDRESS) from None
    if parsed.get_backend_name() == "sqlite":
        return Database(_sqlite_engine(parsed, patience_seconds), patience_seconds)
    if parsed.get_backend_name() == "postgresql":
        return Database(_postgres_engine(parsed, pooled, patience_seconds), patience_seconds)
    raise NightdeskError(f"{parsed.get_backend_name()} is not a database that Nightdesk can use.", _GIVE_AN_ADDRESS)


def _sqlite_engine(url: sa.URL, patience_seconds: int) -> sa.Engine:
    if url.database and url.database != ":memory:":
        _make_private(Path(url.database))
    engine = sa.create_engine(url, pool_size=5, max_overflow=20, connect_args={"timeout": patience_seconds})

    @event.listens_for(engine, "connect")
    def configure(dbapi_conn: Any, _record: object) -> None:
        dbapi_conn.isolation_level = None  # BEGIN is ours, below
        dbapi_conn.execute("PRAGMA foreign_keys=ON")
        journal = dbapi_conn.execute("PRAGMA journal_mode").fetchone()[0]
        if journal == "wal" and sqlite3.sqlite_version_info < _WAL_IS_SAFE:
            raise NightdeskError(
                f"The database is in WAL mode, which SQLite {sqlite3.sqlite_version} may corrupt.",
                "Run: sqlite3 nightdesk.db 'PRAGMA journal_mode=DELETE'",
            )

    @event.listens_for(engine, "begin")
    def begin(conn: sa.Connection) -> None:
        reading = conn.get_execution_options().get("nightdesk_read", False)
        conn.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _make_private(path: Path) -> None:
    """A database holds customers' data: its file is for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _postgres_engine(url: sa.URL, pooled: bool, patience_seconds: int) -> sa.Engine:
    pool: dict[str, Any] = (
        {"pool_size": 5, "max_overflow": 20, "pool_timeout": patience_seconds, "pool_pre_ping": True}
        if pooled
        else {"poolclass": sa.NullPool}
    )
    return sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=postgres_connect_args(patience_seconds),
        **pool,
    )


def postgres_connect_args(patience_seconds: int) -> dict[str, Any]:
    """A peer that vanishes is noticed; a frozen peer's locks are freed after five seconds."""
    return {
        "connect_timeout": max(2, min(patience_seconds, 10)),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": patience_seconds * 1000,
        "application_name": "nightdesk",
        "options": f"-c idle_in_transaction_session_timeout=5000 -c statement_timeout={patience_seconds * 1000}",
    }


def is_outage(error: BaseException) -> bool:
    """Whether the database could not do the work now: away, full, locked. The same work may succeed later."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    sqlstate = getattr(error.orig, "sqlstate", None)
    if sqlstate is not None:
        return str(sqlstate).startswith(_OUTAGE_STATES)
    text = str(error.orig).lower()
    if isinstance(error.orig, sqlite3.Error):
        return any(part in text for part in _OUTAGE_TEXTS)
    return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
