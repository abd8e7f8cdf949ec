"""The machine that the figures come from, in one sentence."""

import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg

from tests.support.postgres import PostgresServer


def describe(server: PostgresServer) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [
        f"{cores} cores of {_processor()}",
        f"{psutil.virtual_memory().total / 2**30:.0f} GB of memory",
        f"{platform.system()} {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version} (rollback journal, synchronous=FULL)",
        f"Postgres {_postgres(server)} (fsync on)",
    ]
    return f"Measured on {datetime.now(UTC):%Y-%m-%d}: {', '.join(parts)}."


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in _lines(info) if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _postgres(server: PostgresServer) -> str:
    with psycopg.connect(server.url()) as conn:
        return str(conn.info.parameter_status("server_version")).split()[0]
