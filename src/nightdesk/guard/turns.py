"""Transactions touch budgets and rates one after the other: whichever rows they need, they cannot deadlock."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nightdesk.store import Database

_TURN = "nightdesk-guard"


def take_turn(db: Database, conn: sa.Connection) -> None:
    """Hold the turn until the transaction ends.

    A statement that begins after that sees all that earlier holders have committed, and no row that it reads can
    change before it writes. It is asked for once per transaction; in a savepoint, which might end earlier, each time.
    """
    holder = conn.get_transaction()
    if conn.info.get(_TURN) is not holder:
        db.lock(conn, _TURN)
        conn.info[_TURN] = holder if conn.get_nested_transaction() is None else None


def wanted(count: int, **columns: Any) -> sa.CTE:
    """So many rows of parameters, called `wanted_name_0` and so on, as a table to be joined."""
    rows = [
        sa.select(
            *(sa.cast(sa.bindparam(f"wanted_{name}_{number}"), type_).label(name) for name, type_ in columns.items())
        )
        for number in range(count)
    ]
    return sa.union_all(*rows).cte("wanted")


def numbered(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The parameters of `wanted` for these rows."""
    return {f"wanted_{name}_{number}": value for number, row in enumerate(rows) for name, value in row.items()}


def same(left: Any, right: Any, names: Sequence[str]) -> sa.ColumnElement[bool]:
    return sa.and_(*(left.c[name] == right.c[name] for name in names))
