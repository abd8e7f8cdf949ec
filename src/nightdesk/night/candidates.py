"""The tasks that a night could do, read in bulk, each with what it takes and how urgent it is.

Those that were never begun lie in the queue, or were planned for a night that nobody opened. Those that were begun wait
since an earlier night, whatever for: once that night is over they cannot go on unless they are planned anew. Only who
waits for a person is left alone until that person has answered.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.guard.purses import Sums, purse_of
from nightdesk.guard.switches import switches_in
from nightdesk.house import House
from nightdesk.model.estimates import Estimates
from nightdesk.model.routing import LIVE_SECONDS
from nightdesk.night.capacity import Capacity
from nightdesk.night.costing import Costing, Terms, rounded_up
from nightdesk.night.launch import barred
from nightdesk.night.plan import Candidate
from nightdesk.night.search import Needs
from nightdesk.playbook import Playbook
from nightdesk.store import budgets, plan_items, tasks

# Urgency counts from the least to the most: how long it waits, how much of its SLA is over, whether it is now or never.
LEAST, MOST = 10, 70
_FOR_WAITING, _FOR_THE_SLA, _FOR_EXPIRY = 20, 20, 20
_DAY = timedelta(days=1)
_DAY_SECONDS = _DAY.total_seconds()
_CHUNK = 2_000
_TO_BE_DONE = ("queued", "planned", "working", "waiting")
_t = tasks.c
_COLUMNS = (
    _t.id, _t.playbook, _t.tenant, _t.priority, _t.state, _t.created_at, _t.not_before, _t.expires_at, _t.dispatch,
    sa.func.length(sa.cast(_t.input, sa.Text)).label("letters"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offer(Candidate):
    """A candidate with all that its line in the plan says. `is_new`: it lies in the queue; `refusal`: why it cannot be
    done, whatever is left."""

    created_at: datetime
    terms: Terms
    worst_micros: int
    likely_micros: int
    review_minutes: float
    starts_at: datetime
    is_new: bool
    refusal: str


def is_candidate(at: datetime, window: Window) -> sa.ColumnElement[bool]:
    """Whether the night may have it. Work handed in after the cut-off is for the next, unless it is urgent."""
    in_time = (_t.created_at <= window.cutoff) | (_t.priority <= 1)
    over = _t.until.is_not(None) & (_t.until <= at)
    fresh = (_t.state == "queued") & (_t.until.is_(None) | over)
    missed = (_t.state == "planned") & over
    begun = (_t.state == "waiting") & (_t.waiting_for != "person") & over
    return _t.rank.is_(None) & in_time & (fresh | missed | begun)


def columns_of(offer: Offer) -> dict[str, Any]:
    """What its line in the plan stores of it."""
    return {
        "lane": offer.terms.lane,
        "worst_micros": offer.worst_micros,
        "likely_micros": offer.likely_micros,
        "review_minutes": offer.review_minutes,
        "starts_at": offer.starts_at,
    }


@dataclass(frozen=True, slots=True)
class _Kind:
    """What tasks have in common that are of one playbook, tenant and priority, and of about one size."""

    playbook: Playbook | None
    terms: Terms
    needs: Needs
    minutes: float
    refusal: str


class Reader:
    """Turns rows of tasks into offers, for one window."""

    def __init__(self, house: House, conn: sa.Connection, window: Window, anyway: Mapping[str, str]) -> None:
        self.estimates = Estimates(house.settings.model, house.clock)
        self.capacity = Capacity(house, conn, window, self.estimates)
        self._house, self._conn, self._window = house, conn, window
        self._costing = Costing(house, conn, window, self.estimates)
        self._switches = switches_in(conn)
        self._barred = {name: why for name, why in barred(house, conn).items() if name not in anyway}
        self._kinds: dict[tuple[str, str, int, int], _Kind] = {}

    def read(self, which: sa.ColumnElement[bool]) -> list[Offer]:
        paid = self._read_paid(which)
        query = sa.select(*_COLUMNS).where(which).execution_options(yield_per=_CHUNK)
        return [self._offer(row, paid.get(row.id)) for row in self._conn.execute(query)]

    def promise_planned(self, at: datetime) -> None:
        """Take off what is planned already and not on the desk yet, in this night and in others under way."""
        item = plan_items.c
        begun = item.dispatched_at.is_not(None).label("begun")
        is_planned = item.chosen & (_t.night == item.night) & (_t.until > at) & _t.state.in_(_TO_BE_DONE)
        query = sa.select(*_COLUMNS, item.worst_micros, begun).join(plan_items, item.task_id == _t.id).where(is_planned)
        paid = self._read_paid(_t.until > at)
        for row in self._conn.execute(query.execution_options(yield_per=_CHUNK)):
            kind = self._kind(row)
            worst = self._worst(row, kind, paid.get(row.id))
            # Of one that was begun a part is paid; of another no less is taken off than its plan says.
            self.capacity.promise(self._needs(row, kind, worst if row.begun else max(worst, row.worst_micros)))

    def _offer(self, row: Any, paid: Sums | None) -> Offer:
        kind = self._kind(row)
        worst = self._worst(row, kind, paid)
        starts_at = self._window.start if row.not_before is None else max(self._window.start, row.not_before)
        return Offer(
            id=row.id,
            playbook=row.playbook,
            tenant=row.tenant,
            priority=row.priority,
            urgency=self._urgency(row, kind),
            due=_due(row.expires_at, self._window),
            needs=self._needs(row, kind, worst),
            created_at=row.created_at,
            terms=kind.terms,
            worst_micros=worst,
            likely_micros=min(worst, kind.terms.likely_micros),
            review_minutes=kind.minutes,
            starts_at=starts_at,
            is_new=row.state == "queued",
            refusal=kind.refusal or self._refusal(row, kind, starts_at, worst),
        )

    def _kind(self, row: Any) -> _Kind:
        key = row.playbook, row.tenant, row.priority, rounded_up(row.letters)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._new_kind(*key)
        return kind

    def _new_kind(self, name: str, tenant: str, priority: int, letters: int) -> _Kind:
        if name not in self._house.registry:
            return _Kind(None, Terms(why=""), (), 0.0, "its playbook is gone: restore it, or cancel the task")
        playbook = self._house.registry.get(name)
        terms = self._costing.terms(playbook, priority, letters)
        minutes = self.capacity.minutes.of(name)
        needs = self.capacity.needs(playbook, tenant, terms, terms.worst_micros, minutes)
        switch = next((switch for switch in self._switches if switch.covers(name, tenant)), None)
        off = f"it is switched off: {switch.why}" if switch else ""
        return _Kind(playbook, terms, needs, minutes, off or self._barred.get(name, "") or terms.refusal)

    def _worst(self, row: Any, kind: _Kind, paid: Sums | None) -> int:
        """What is left of the task's own budget; of a task that has none it may still cost as much as any."""
        if paid is None or kind.playbook is None:
            return kind.terms.worst_micros
        cap = kind.playbook.asking.task_cap
        limit = purse_of(self._house.settings, self._window.start, "task", row.id, cap).limit_micros
        if limit is None:
            return kind.terms.worst_micros
        return max(0, limit + paid.raised - paid.spent - paid.reserved)

    def _needs(self, row: Any, kind: _Kind, worst: int) -> Needs:
        if kind.playbook is None or worst == kind.terms.worst_micros:
            return kind.needs
        return self.capacity.needs(kind.playbook, row.tenant, kind.terms, worst, kind.minutes)

    def _urgency(self, row: Any, kind: _Kind) -> int:
        """By the nights that it was passed over, by how much of its SLA is over when this one ends, and by whether it
        would expire before the next."""
        waited = max(0.0, (self._window.stop - row.created_at).total_seconds())
        points = LEAST + min(_FOR_WAITING, int(waited // _DAY_SECONDS))
        sla = kind.playbook.sla_seconds if kind.playbook else None
        if sla:
            points += min(_FOR_THE_SLA, int(_FOR_THE_SLA / 2 * waited / sla))
        if row.expires_at is not None and row.expires_at < self._window.stop + _DAY:
            points += _FOR_EXPIRY
        return points

    def _refusal(self, row: Any, kind: _Kind, starts_at: datetime, worst: int) -> str:
        """Why it cannot be done in this night, whatever there is left; empty if it can."""
        if starts_at >= self._window.stop:
            return f"it is for a later night: it must not start before {_shown(starts_at)}"
        if row.expires_at is not None and row.expires_at <= starts_at:
            return f"it expires before it could be started: at {_shown(row.expires_at)}"
        if kind.terms.route and (self._window.stop - starts_at).total_seconds() < LIVE_SECONDS:
            return f"too little of the night is left for it: {_shown(starts_at)} to {_shown(self._window.stop)}"
        if kind.terms.worst_micros and not worst:
            return f"its own budget is used up: allow it more with nightdesk budget raise --task {row.id}"
        return ""

    def _read_paid(self, which: sa.ColumnElement[bool]) -> dict[str, Sums]:
        """The own budgets of those of these tasks that were worked on before."""
        b = budgets.c
        sums = [b[f"{name}_micros"] for name in Sums._fields]
        begun = sa.select(_t.id).where(which, _t.dispatch > 0)
        query = sa.select(b.name, *sums).where(b.scope == "task", b.day == "", b.name.in_(begun))
        return {row[0]: Sums(*row[1:]) for row in self._conn.execute(query)}


def _due(expires_at: datetime | None, window: Window) -> float:
    return expires_at.timestamp() if expires_at is not None and expires_at < window.stop else math.inf


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
