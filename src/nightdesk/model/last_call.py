"""Last call: so long before the hard stop that the rest can still be asked live, what is out is called back."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.guard.limits import MINUTE, Dimension
from nightdesk.guard.turns import take_turn
from nightdesk.model.deadline import CALLED_BACK, last_call
from nightdesk.model.giving_back import Wake, give_back
from nightdesk.model.posting import give_back_members
from nightdesk.model.room import ModelRoom
from nightdesk.settings import RateSettings, Settings
from nightdesk.store import batches, calls, rate_buckets
from nightdesk.watch.events import record
from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.batches")
# Literals, or SQLite would not see that there is an index of just these.
_OUT = calls.c.status.in_([sa.literal_column("'wanted'"), sa.literal_column("'sent'")])


def call_back_due(room: ModelRoom, wake: Wake) -> int:
    """Call back all whose last call is now; the answer is how many calls and batches that were."""
    with room.house.db.read() as conn:
        due = _due(room, conn)
    return sum(_call_back(room, deadline, wake) for deadline in due)


def _due(room: ModelRoom, conn: sa.Connection) -> list[datetime]:
    """The deadlines whose last call has come, of all that is out. A handful: calls of one night share theirs."""
    now, settings = room.house.clock.now(), room.house.settings
    sums = (sa.func.count(), sa.func.sum(calls.c.input_estimate))
    query = sa.select(calls.c.deadline, calls.c.provider, *sums).where(_OUT, calls.c.deadline.is_not(None))
    found = conn.execute(query.group_by(calls.c.deadline, calls.c.provider)).all()
    return sorted(
        {
            deadline
            for deadline, provider, count, tokens in found
            if last_call(settings.night, deadline, _seconds_live(settings, conn, provider, count, int(tokens))) <= now
        }
    )


def _seconds_live(settings: Settings, conn: sa.Connection, provider: str, count: int, tokens: int) -> float:
    """How long it takes to send so many calls live, with so many tokens, under the tightest of their limits."""
    requests = _slowest(settings, conn, provider, "requests", lambda rate: rate.requests_per_minute)
    inputs = _slowest(settings, conn, provider, "input_tokens", lambda rate: rate.input_tokens_per_minute)
    return max(count / requests if requests else 0.0, tokens / inputs if inputs else 0.0)


def _slowest(
    settings: Settings,
    conn: sa.Connection,
    provider: str,
    dimension: Dimension,
    stated: Callable[[RateSettings], float | None],
) -> float | None:
    """The lowest rate per second of any limit that the provider's calls are under: stated, or found out."""
    places = (f"{provider}:", "*:")
    routes = settings.limits.routes.items()
    rates = [stated(rate) for route, rate in routes if route == "*" or route.startswith(places)]
    b = rate_buckets.c
    found = sa.select(sa.func.min(b.per_second)).where(
        b.provider == provider, b.dimension == dimension, b.learned, b.per_second > 0
    )
    told = conn.execute(found).scalar()
    return min([*(rate / MINUTE for rate in rates if rate), *([told] if told else [])], default=None)


def _call_back(room: ModelRoom, deadline: datetime, wake: Wake) -> int:
    """Waves that have not left are dissolved; batches that are out are to be cancelled, and then read."""
    db, now = room.house.db, room.house.clock.now()
    with db.write() as conn:
        take_turn(db, conn)
        count = give_back(room, conn, (calls.c.status == "wanted") & (calls.c.deadline <= deadline), CALLED_BACK, wake)
        for batch in _intents(conn, deadline):
            ended = {"status": "failed", "ended_at": now, "next_at": None, "error": CALLED_BACK}
            conn.execute(batches.update().where(batches.c.id == batch["id"]), ended)
            give_back_members(room, conn, batch, CALLED_BACK, wake)
            count += 1
        count += _cancel(conn, now, deadline)
        if count:
            detail = {"deadline": deadline.isoformat(), "called_back": count}
            record(conn, now, "last_call", cause=CALLED_BACK, actor="worker", detail=detail)
    if count:
        _log.info("Last call.", action="last_call", count=count)
    return count


def _intents(conn: sa.Connection, deadline: datetime) -> Sequence[Any]:
    """Batches that were not sent yet, with certainty."""
    unsent = (batches.c.status == "intent") & (batches.c.attempt == 0) & batches.c.holder.is_(None)
    query = sa.select(batches).where(unsent, batches.c.id.in_(_with_members(deadline)))
    return conn.execute(query.with_for_update(skip_locked=True)).mappings().all()


def _cancel(conn: sa.Connection, now: datetime, deadline: datetime) -> int:
    """Whoever holds such a batch finds the mark at its next look, which is now."""
    out = (batches.c.status == "open") & batches.c.id.in_(_with_members(deadline))
    mark = {"status": "cancelling", "next_at": now, "error": CALLED_BACK}
    return conn.execute(batches.update().where(out).values(mark)).rowcount


def _with_members(deadline: datetime) -> sa.Select[Any]:
    due = _OUT & (calls.c.deadline <= deadline) & calls.c.batch_id.is_not(None)
    return sa.select(calls.c.batch_id).where(due)
