"""The vigil: silence is an alarm. Nights that do not start, do not end, do not move or come to nothing; workers of whom
nothing is heard; providers that are shut; budgets for which a person is asked.

It is kept by the web process beside the workers, as the one that is missing may be the last of them.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.calendar import running_nights
from nightdesk.engine import workers
from nightdesk.guard.breakers import list_breakers
from nightdesk.guard.caps import list_budgets
from nightdesk.guard.masking import mask
from nightdesk.guard.purses import title
from nightdesk.house import House
from nightdesk.night.moving import any_of
from nightdesk.night.schedule import Night, schedules
from nightdesk.store import nights, tasks
from nightdesk.watch.alerts import Subject, clear_alert, open_alerts, raise_alert

Found = Iterator[tuple[Subject, str]]

# A night may be this late in starting and in ending before that is an alarm.
_LATE = timedelta(minutes=5)
_SILENT = timedelta(minutes=2)
_STALLED = timedelta(minutes=10)
_REMEMBERED = timedelta(days=1)
_ENDS = ("done", "review", "dead", "expired", "cancelled")


class Vigil:
    """One process's look at the house; it knows since when it has heard of no worker."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._silent_since: datetime | None = None

    def look(self) -> None:
        """Raise an alert for all that is wrong now, and clear those of what is not wrong any more."""
        now = self._house.clock.now()
        found = dict(self._wrong(now))
        with self._house.db.read() as conn:
            known = open_alerts(conn)
        raised = {about: mask(why) for about, why in found.items() if about not in known}
        cleared = known.keys() - found.keys()
        if raised or cleared:
            self._write(now, raised, cleared)

    def _write(self, now: datetime, raised: dict[Subject, str], cleared: set[Subject]) -> None:
        house = self._house
        with house.db.write() as conn:
            for about, why in raised.items():
                raise_alert(house.db, conn, now, house.settings.notify, about, why)
            for about in cleared:
                clear_alert(house.db, conn, now, about)

    def _wrong(self, now: datetime) -> Found:
        yield from self._nights(now)
        for breaker in list_breakers(self._house.db):
            if breaker.state != "closed":
                name = f"{breaker.provider} {breaker.model} {breaker.lane}"
                kind = "breaker-latched" if breaker.state == "latched" else "breaker-open"
                yield (kind, name), f"The breaker of {name} is {breaker.state}: {breaker.why}"
        for budget in list_budgets(self._house.db, self._house.settings, now):
            if budget.asked_at is not None:
                name = title(budget.scope, budget.name, budget.day)
                yield ("budget", name), f"The budget of {name} is used up. Raise it with: nightdesk budget raise"

    def _nights(self, now: datetime) -> Found:
        """What closed some days ago needs nobody any more."""
        recent = nights.c.closed_at.is_(None) | (nights.c.closed_at > now - _REMEMBERED)
        with self._house.db.read() as conn:
            rows = list(conn.execute(sa.select(nights).where(recent)).mappings())
        due = [night["name"] for night in rows if night["closed_at"] is None and night["starts_at"] <= now]
        for name, start in self._never_planned(now):
            due.append(name)
            if start + _LATE <= now:
                yield ("night-not-started", name), f"The night of {name} was not even planned. Is a worker there?"
        is_silent = self._is_silent(now, bool(due))
        if is_silent:
            yield ("no-heartbeat", "worker"), f"No worker is alive in the night of {due[0]}. Start one: nightdesk up"
        for night in rows:
            yield from _wrong_with(night, now)
            if night["state"] == "open" and not is_silent and self._is_stalled(night, now):
                yield ("night-stalled", night["name"]), f"Nothing in the night of {night['name']} moves any more."

    def _never_planned(self, now: datetime) -> Iterator[tuple[str, datetime]]:
        for schedule in schedules(self._house):
            for window in running_nights(schedule.hours, now):
                name = schedule.named(window).name
                with self._house.db.read() as conn:
                    known = conn.execute(sa.select(nights.c.name).where(nights.c.name == name)).first()
                if known is None and window.start <= now:
                    yield name, window.start

    def _is_silent(self, now: datetime, is_needed: bool) -> bool:
        """A worker that starts anew is away for a moment, which is no alarm."""
        if not is_needed or any(worker["alive"] for worker in workers(self._house.db)):
            self._silent_since = None
            return False
        self._silent_since = self._silent_since or now
        return now - self._silent_since >= _SILENT

    def _is_stalled(self, night: Night, now: datetime) -> bool:
        if now - night["moved_at"] < _STALLED:
            return False
        with self._house.db.read() as conn:
            return any_of(conn, (tasks.c.night == night["name"]) & tasks.c.rank.is_not(None))


def _wrong_with(night: Night, now: datetime) -> Found:
    name, state = night["name"], night["state"]
    if state in ("planning", "planned") and night["starts_at"] + _LATE <= now:
        yield ("night-not-started", name), f"The night of {name} has not started; it is {state}. Is a worker there?"
    if state != "closed" and night["stops_at"] + _LATE <= now:
        yield ("night-not-finished", name), f"The night of {name} has not ended; it is {state}. Is a worker there?"
    if state == "closed" and night["figures"]["planned"]:
        yield from _came_to_nothing(night)


def _came_to_nothing(night: Night) -> Found:
    name, figures = night["name"], night["figures"]
    planned = figures["planned"]
    if night["opened_at"] is None:
        yield ("night-not-started", name), f"The night of {name} never started; {planned} tasks were planned for it."
    elif not any(figures[state] for state in _ENDS):
        yield ("night-drained-nothing", name), f"Of {planned} tasks in the night of {name} not one came to an end."
    elif not figures["done"] + figures["review"]:
        yield ("night-wrote-nothing", name), f"Of {planned} tasks in the night of {name} not one has a result."
