"""What a plan comes to, as it stands: counted from its lines."""

from decimal import Decimal

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.guard.purses import MICROS
from nightdesk.store import plan_items

_i = plan_items.c


def sums_of(conn: sa.Connection, night: str) -> dict[str, Json]:
    """Of the chosen tasks; `left_out` counts the others."""
    sums = [
        sa.func.coalesce(sa.func.sum(column), 0) for column in (_i.worst_micros, _i.likely_micros, _i.review_minutes)
    ]
    count, worst, likely, minutes = conn.execute(
        sa.select(sa.func.count(), *sums).where(_i.night == night, _i.chosen)
    ).one()
    left_out = sa.select(sa.func.count()).where(_i.night == night, ~_i.chosen)
    return {
        "tasks": count,
        "left_out": conn.execute(left_out).scalar_one(),
        "worst_usd": usd(worst),
        "likely_usd": usd(likely),
        "review_minutes": round(minutes, 3),
    }


def usd(micros: int) -> str:
    """Dollars as exact text."""
    return f"{Decimal(int(micros)) / MICROS:.6f}"
