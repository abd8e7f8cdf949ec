"""Breakers: a provider, model and lane that keeps failing is left alone for a while, then tried by one caller.

One that is latched, because its credentials or its credit are used up, stays so until a person resets it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard.latencies import Latencies
from nightdesk.guard.turns import take_turn
from nightdesk.settings import BreakerSettings, nearest
from nightdesk.store import Database, breakers
from nightdesk.watch.events import record

__all__ = [
    "ANY",
    "Breaker",
    "Latencies",
    "State",
    "Verdict",
    "allow",
    "failed",
    "latch",
    "list_breakers",
    "look",
    "open_for_slowness",
    "reset",
    "shut_lanes",
    "succeeded",
]

State = Literal["closed", "open", "trial", "latched"]

ANY = "*"
_b = breakers.c
_KEY = ("provider", "model", "lane")
_LOOK_AGAIN_SECONDS = 15
_RULES = BreakerSettings()


@dataclass(frozen=True)
class Breaker:
    """`failures` counts the errors running; `failed_at` has the seconds, since 1970, of the newest of them."""

    provider: str
    model: str
    lane: str
    state: State
    failures: int
    failed_at: list[float]
    until: datetime | None
    why: str
    changed_at: datetime


@dataclass(frozen=True)
class Verdict:
    """Whether a call may go out. `until` is when it is worth asking again; None: when a person has acted."""

    allowed: bool
    trial: bool = False
    until: datetime | None = None
    why: str = ""


_COLUMNS = tuple(_b[name] for name in Breaker.__dataclass_fields__)
_Change = Callable[[Breaker], Breaker]


def allow(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    provider: str,
    model: str,
    lane: str,
    rules: BreakerSettings = _RULES,
) -> Verdict:
    """May a call go out now? When the time of an open breaker is over, exactly one caller is given a trial.

    Ask last of all: whoever has the trial and does not send keeps the others waiting until it is given anew.
    """
    due = _due(conn, at, provider, model, lane)
    return _try(db, conn, at, due, rules) if isinstance(due, Breaker) else due


def look(conn: sa.Connection, at: datetime, provider: str, model: str, lane: str) -> Verdict:
    """The same for a call that is not sent at once: the trial is left to one that is."""
    due = _due(conn, at, provider, model, lane)
    return Verdict(True) if isinstance(due, Breaker) else due


def shut_lanes(conn: sa.Connection, at: datetime, provider: str, model: str) -> dict[str, str]:
    """The lanes, or an asterisk for all, that let nothing through now, each with the reason. Takes no trial."""
    shut = (_b.state == "latched") | (_b.state.in_(("open", "trial")) & (_b.until > at))
    query = sa.select(_b.lane, _b.why).where(_b.provider == provider, _b.model.in_((model, ANY)), shut)
    return {row.lane: row.why for row in conn.execute(query)}


def failed(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    provider: str,
    model: str,
    lane: str,
    why: str,
    rules: BreakerSettings = _RULES,
    *,
    sent_at: datetime | None = None,
) -> bool:
    """A call failed as an outage makes them fail. True: this opened the breaker.

    By `sent_at` a trial is told from a call that was sent before it, and says nothing of now.
    """

    def change(breaker: Breaker) -> Breaker:
        return breaker if _is_older(breaker, sent_at) else _after_failure(breaker, at, why, rules)

    return _changed(db, conn, at, (provider, model, lane), change) == "open"


def succeeded(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    provider: str,
    model: str,
    lane: str,
    rules: BreakerSettings = _RULES,
    *,
    sent_at: datetime | None = None,
    seconds: float = 0.0,
) -> None:
    """A call was answered, after so many seconds: errors are no longer running, and a trial is won unless it was slow.

    Writes only if that changes anything.
    """

    def change(breaker: Breaker) -> Breaker:
        return breaker if _is_older(breaker, sent_at) else _after_success(breaker, at, seconds, rules)

    key = (provider, model, lane)
    to_mend = (_b.state == "trial") | ((_b.state == "closed") & (_b.failures > 0))
    if conn.execute(sa.select(_b.state).where(_is_at(key), to_mend)).first() is not None:
        _changed(db, conn, at, key, change)


def open_for_slowness(
    db: Database,
    conn: sa.Connection,
    at: datetime,
    provider: str,
    model: str,
    lane: str,
    why: str,
    rules: BreakerSettings = _RULES,
) -> bool:
    """Open it because answers take too long. True: it was closed before."""

    def change(breaker: Breaker) -> Breaker:
        return _opened(breaker, at, why, rules) if breaker.state == "closed" else breaker

    return _changed(db, conn, at, (provider, model, lane), change) == "open"


def latch(db: Database, conn: sa.Connection, at: datetime, provider: str, model: str, lane: str, why: str) -> bool:
    """Let nothing through until a person resets it; an asterisk stands for all models, all lanes. False: it was so."""

    def change(breaker: Breaker) -> Breaker:
        return breaker if breaker.state == "latched" else replace(breaker, state="latched", until=None, why=why)

    return _changed(db, conn, at, (provider, model, lane), change) == "latched"


def reset(
    db: Database, clock: Clock, provider: str, model: str = ANY, lane: str = ANY, *, why: str, actor: str
) -> list[Breaker]:
    """Close those that are not, and forget their errors; an asterisk stands for all. The answer is what they were."""
    if not why.strip():
        raise Invalid("A reset needs a reason", [("why", "is empty")], "Say why; it is kept in the audit trail.")
    now = clock.now()
    with db.write() as conn:
        take_turn(db, conn)
        known = [Breaker(*row) for row in conn.execute(sa.select(*_COLUMNS).order_by(*(_b[name] for name in _KEY)))]
        chosen = [breaker for breaker in known if _is_meant(breaker, provider, model, lane)]
        if not chosen:
            raise _unknown(known, provider, model, lane)
        concerned = [breaker for breaker in chosen if breaker.state != "closed" or breaker.failures]
        for breaker in concerned:
            _write(conn, now, breaker, _closed(breaker), cause=why, actor=actor)
    return concerned


def list_breakers(db: Database) -> list[Breaker]:
    """All that have ever seen an error, the newest change first."""
    with db.read() as conn:
        query = sa.select(*_COLUMNS).order_by(_b.changed_at.desc(), *(_b[name] for name in _KEY))
        return [Breaker(*row) for row in conn.execute(query)]


def _due(conn: sa.Connection, at: datetime, provider: str, model: str, lane: str) -> Verdict | Breaker:
    """What can be said without trying; or the breaker whose time is over, so that somebody is to try."""
    query = sa.select(*_COLUMNS).where(_covers(provider, model, lane), _b.state != "closed")
    standing = [Breaker(*row) for row in conn.execute(query)]
    latched = next((breaker for breaker in standing if breaker.state == "latched"), None)
    if latched is not None:
        return Verdict(False, why=latched.why)
    if not standing:
        return Verdict(True)
    breaker = max(standing, key=lambda breaker: breaker.until or at)
    return _refused(breaker, at) if breaker.until is not None and at < breaker.until else breaker


def _try(db: Database, conn: sa.Connection, at: datetime, seen: Breaker, rules: BreakerSettings) -> Verdict:
    """Give the trial to this caller, unless another was quicker. A trial that is never heard of again is given anew."""
    until = at + timedelta(seconds=rules.open_seconds)
    values = {"state": "trial", "until": until, "changed_at": at}
    key = (seen.provider, seen.model, seen.lane)
    is_due = _b.state.in_(("open", "trial")) & (_b.until <= at)
    take_turn(db, conn)
    won = conn.execute(breakers.update().where(_is_at(key), is_due).values(values).returning(_b.why)).first()
    if won is None:
        return _refused(replace(seen, state="trial", until=until), at)
    if seen.state != "trial":
        _record(conn, at, seen, replace(seen, state="trial", until=until), "its time is over: one trial", "worker")
    return Verdict(True, trial=True)


def _refused(breaker: Breaker, at: datetime) -> Verdict:
    """While a trial is under way it is worth asking again soon, and not only when the time of the trial is over."""
    soon = at + timedelta(seconds=_LOOK_AGAIN_SECONDS)
    until = min(breaker.until or soon, soon) if breaker.state == "trial" else breaker.until
    return Verdict(False, until=until, why=breaker.why)


def _is_older(breaker: Breaker, sent_at: datetime | None) -> bool:
    """Whether a call that was sent then is not the trial that is under way."""
    return breaker.state == "trial" and sent_at is not None and sent_at < breaker.changed_at


def _after_failure(breaker: Breaker, at: datetime, why: str, rules: BreakerSettings) -> Breaker:
    """Calls that were under way when it opened or latched change nothing by failing too."""
    if breaker.state == "trial":
        return _opened(breaker, at, why, rules)
    if breaker.state != "closed":
        return breaker
    times = sorted([*breaker.failed_at, at.timestamp()])[-rules.errors :]
    counted = replace(breaker, failures=breaker.failures + 1, failed_at=times, why=why)
    if len(times) == rules.errors and times[-1] - times[0] <= rules.window_seconds:
        return _opened(counted, at, why, rules)
    return counted


def _after_success(breaker: Breaker, at: datetime, seconds: float, rules: BreakerSettings) -> Breaker:
    """One that is open stays so: the call was sent before, and says little of now."""
    if breaker.state == "trial" and seconds > rules.slow_seconds:
        return _opened(breaker, at, f"the trial took {seconds:.0f} s", rules)
    return _closed(breaker) if breaker.state in ("closed", "trial") else breaker


def _opened(breaker: Breaker, at: datetime, why: str, rules: BreakerSettings) -> Breaker:
    return replace(breaker, state="open", until=at + timedelta(seconds=rules.open_seconds), why=why)


def _closed(breaker: Breaker) -> Breaker:
    return replace(breaker, state="closed", failures=0, failed_at=[], until=None, why="")


def _changed(
    db: Database, conn: sa.Connection, at: datetime, key: tuple[str, str, str], change: _Change
) -> State | None:
    """Apply the change to the row, which is made if need be. The answer is the new state if it is another one."""
    take_turn(db, conn)
    row = conn.execute(sa.select(*_COLUMNS).where(_is_at(key)).with_for_update()).first()
    before = Breaker(*row) if row else Breaker(*key, "closed", 0, [], None, "", at)
    after = change(before)
    if after == before:
        return None
    if row is None:
        conn.execute(breakers.insert().values(_values(before, at)))
    _write(conn, at, before, after, cause=after.why or "a call was answered", actor="worker")
    return after.state if after.state != before.state else None


def _write(conn: sa.Connection, at: datetime, before: Breaker, after: Breaker, *, cause: str, actor: str) -> None:
    is_other = after.state != before.state
    values = _values(after, at if is_other else before.changed_at)
    conn.execute(breakers.update().where(_is_at((after.provider, after.model, after.lane))).values(values))
    if is_other:
        _record(conn, at, before, after, cause, actor)


def _record(conn: sa.Connection, at: datetime, before: Breaker, after: Breaker, cause: str, actor: str) -> None:
    until = after.until.isoformat() if after.until else None
    detail = {"provider": after.provider, "model": after.model, "lane": after.lane, "until": until}
    record(conn, at, "breaker", cause=cause, actor=actor, prior_state=before.state, state=after.state, detail=detail)


def _values(breaker: Breaker, changed_at: datetime) -> dict[str, object]:
    return {**{name: getattr(breaker, name) for name in Breaker.__dataclass_fields__}, "changed_at": changed_at}


def _covers(provider: str, model: str, lane: str) -> sa.ColumnElement[bool]:
    return (_b.provider == provider) & _b.model.in_((model, ANY)) & _b.lane.in_((lane, ANY))


def _is_at(key: tuple[str, str, str]) -> sa.ColumnElement[bool]:
    return sa.and_(*(_b[name] == part for name, part in zip(_KEY, key, strict=True)))


def _is_meant(breaker: Breaker, provider: str, model: str, lane: str) -> bool:
    return provider in (ANY, breaker.provider) and model in (ANY, breaker.model) and lane in (ANY, breaker.lane)


def _unknown(known: list[Breaker], provider: str, model: str, lane: str) -> NotFound:
    """Names the provider alone if it is that which is misspelt."""
    providers = sorted({breaker.provider for breaker in known})
    called, names = provider, providers
    if provider in providers:
        called = f"{provider} {model} {lane}"
        names = [f"{one.provider} {one.model} {one.lane}" for one in known if one.provider == provider]
    hint = nearest(called, names) if names else "; nothing has failed yet"
    return NotFound(f"There is no breaker of {called}{hint}.", "See: nightdesk breaker list")
