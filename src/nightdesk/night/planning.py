"""Making the plan of a night, and storing it.

Nobody sees a plan that is not whole. Its night's row is `planning` at first, which no other part of the house looks at,
and says who writes the plan and until when he is taken to be alive. He writes in transactions of some thousand tasks:
for each task its line of the plan and, if it was chosen, its change to `planned`, both or neither. Each of these begins
by making sure that the row is still his, and the last makes it `planned`. If he dies, whoever looks next takes the row
over once his time has run out, and plans what has no line yet, with what the others leave of the caps. So no night is
planned by two processes side by side, and none twice.
"""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.canonical import Json
from nightdesk.failpoints import failpoint
from nightdesk.house import House
from nightdesk.night.candidates import Offer, columns_of, is_candidate
from nightdesk.night.drafting import Draft, Line, draft_plan
from nightdesk.night.launch import barred
from nightdesk.night.reviewing import minutes_in_a_morning
from nightdesk.night.steps import LOCK
from nightdesk.night.sums import sums_of
from nightdesk.store import nights, plan_items, tasks
from nightdesk.watch.events import record
from nightdesk.work.states import move_all

__all__ = ["barred", "make_plan"]

# So many tasks are written in one transaction: a moment's work, as others wait for it.
_CHUNK = 2000
# For so long nobody takes a plan away from whoever has just written at it.
_LEASE = timedelta(seconds=60)
_t = tasks.c


class _Superseded(Exception):
    """Somebody else has taken the plan over."""


def make_plan(
    house: House,
    window: Window,
    playbooks: Sequence[str],
    *,
    by_hand: bool = False,
    anyway: Mapping[str, str] | None = None,
    actor: str = "night",
) -> str:
    """Plan the night of this window unless that was done; the answer is its name.

    A night by hand is a new one each time. While another process writes the plan nothing is done here, and the plan
    may not be whole yet on return. `anyway` has the playbooks that are planned although their launch test is not
    passed, each with the reason.
    """
    making = _Making(house, window, playbooks, by_hand, dict(anyway or {}), actor)
    with suppress(_Superseded):
        making.run()
    return making.name


class _Making:
    def __init__(
        self,
        house: House,
        window: Window,
        playbooks: Sequence[str],
        by_hand: bool,
        anyway: dict[str, str],
        actor: str,
    ) -> None:
        self._house, self._window, self._playbooks = house, window, playbooks
        self._by_hand, self._anyway, self._actor = by_hand, anyway, actor
        self._maker = uuid.uuid4().hex

    @property
    def name(self) -> str:
        return self._window.name

    def run(self) -> None:
        if self._is_made() or not self._claim():
            return
        failpoint("plan-claimed")
        draft = draft_plan(self._house, self._window, self._playbooks, by_hand=self._by_hand, anyway=self._anyway)
        before = self._last_position()
        # In the order in which the tasks came, in which they lie together.
        lines = sorted(draft.lines, key=lambda line: (line.offer.created_at, line.offer.id))
        for start in range(0, len(lines), _CHUNK):
            self._write(lines[start : start + _CHUNK], before)
            failpoint("plan-written-in-part")
        self._finish(draft)
        failpoint("night-planned")

    def _is_made(self) -> bool:
        """Whether there is nothing to do, as far as can be seen without a lock."""
        if self._by_hand:
            return False
        is_made = sa.exists(sa.select(1).where(nights.c.name == self.name, nights.c.state != "planning"))
        abandoned = sa.exists(sa.select(1).where(_is_abandoned(self._house.clock.now())))
        with self._house.db.read() as conn:
            return bool(conn.execute(sa.select(is_made & ~abandoned)).scalar())

    def _claim(self) -> bool:
        """Whether the plan is ours to write: there is none, or whoever wrote it has died."""
        now = self._house.clock.now()
        claim = {"maker": self._maker, "maker_until": now + _LEASE}
        with self._house.db.write() as conn:
            self._house.db.lock(conn, LOCK)
            _release_abandoned(conn, now)
            if self._by_hand:
                self._window = replace(self._window, name=_numbered(conn, self.name))
            row = conn.execute(sa.select(nights).where(nights.c.name == self.name)).mappings().one_or_none()
            if row is None:
                self._begin(conn, now, claim)
                return True
            if row["state"] != "planning" or row["maker_until"] > now:
                return False
            self._anyway = row["plan"]["anyway"]
            conn.execute(nights.update().where(nights.c.name == self.name), claim)
            return True

    def _begin(self, conn: sa.Connection, now: datetime, claim: dict[str, Any]) -> None:
        window = self._window
        row = {
            "name": window.name,
            "state": "planning",
            "by_hand": self._by_hand,
            "cutoff_at": window.cutoff,
            "starts_at": window.start,
            "stops_at": window.stop,
            "summary_at": window.summary,
            "planned_at": now,
            "moved_at": now,
            "plan": {"anyway": self._anyway},
        }
        conn.execute(nights.insert(), row | claim)
        for playbook, why in self._anyway.items():
            detail = {"night": window.name, "playbook": playbook}
            record(conn, now, "plan", cause=why, actor=self._actor, state="anyway", detail=detail)

    def _last_position(self) -> int:
        """Of a plan that another has begun to write."""
        last = sa.select(sa.func.max(plan_items.c.position)).where(plan_items.c.night == self.name)
        with self._house.db.read() as conn:
            return conn.execute(last).scalar() or 0

    def _write(self, lines: Sequence[Line], before: int) -> None:
        now = self._house.clock.now()
        with self._house.db.write() as conn:
            self._make_sure(conn, maker_until=now + _LEASE)
            still = self._take(conn, now, [line.offer for line in lines if line.chosen])
            rows = [self._row(line, before) for line in lines if not line.chosen or line.offer.id in still]
            if rows:
                conn.execute(plan_items.insert(), rows)

    def _take(self, conn: sa.Connection, now: datetime, offers: Sequence[Offer]) -> set[str]:
        """Those of these tasks that could still be had, which are this night's now: others were cancelled, say."""
        joins = {"night": self.name, "until": self._window.stop}
        fresh = [offer.id for offer in offers if offer.is_new]
        others = [offer.id for offer in offers if not offer.is_new]
        taken: set[str] = set()
        if fresh:
            cause = f"it is in the plan of the night of {self.name}"
            taken.update(move_all(conn, now, fresh, "queued", "planned", cause=cause, actor=self._actor, **joins))
        if others:
            held = sa.select(_t.id).where(_t.id.in_(others), is_candidate(now, self._window)).order_by(_t.id)
            found = conn.scalars(held.with_for_update()).all()
            conn.execute(tasks.update().where(_t.id.in_(found)), joins | {"updated_at": now})
            taken.update(found)
        return taken

    def _row(self, line: Line, before: int) -> dict[str, Any]:
        return {
            "night": self.name,
            "task_id": line.offer.id,
            "position": before + line.position,
            "chosen": line.chosen,
            "why": line.why,
            "stops_at": self._window.stop,
            **columns_of(line.offer),
        }

    def _finish(self, draft: Draft) -> None:
        now = self._house.clock.now()
        minutes = minutes_in_a_morning(self._house.settings.night)
        plan = {"anyway": self._anyway, "reviewer_minutes": minutes, **draft.forecast.as_json()}
        with self._house.db.write() as conn:
            self._make_sure(conn, maker_until=now + _LEASE)
            _make_whole(conn, now, self.name, plan, actor=self._actor)

    def _make_sure(self, conn: sa.Connection, maker_until: datetime) -> None:
        """That the plan is ours still."""
        ours = (nights.c.name == self.name) & (nights.c.maker == self._maker)
        if not conn.execute(nights.update().where(ours), {"maker_until": maker_until}).rowcount:
            raise _Superseded


def _numbered(conn: sa.Connection, evening: str) -> str:
    """The name of the next night by hand of this evening."""
    earlier = sa.select(sa.func.count()).where(nights.c.by_hand, nights.c.name.startswith(f"{evening}."))
    return f"{evening}.{conn.execute(earlier).scalar_one() + 1}"


def _release_abandoned(conn: sa.Connection, now: datetime) -> None:
    """A night by hand whose planner has died: nobody will plan it again, so what is planned of it stands."""
    for row in conn.execute(sa.select(nights).where(_is_abandoned(now))).mappings().all():
        _make_whole(conn, now, row["name"], row["plan"], actor="night")


def _is_abandoned(now: datetime) -> sa.ColumnElement[bool]:
    return nights.c.by_hand & (nights.c.state == "planning") & (nights.c.maker_until <= now)


def _make_whole(conn: sa.Connection, now: datetime, night: str, plan: dict[str, Json], *, actor: str) -> None:
    sums = sums_of(conn, night)
    values = {"state": "planned", "maker": None, "maker_until": None, "planned_at": now, "moved_at": now}
    conn.execute(nights.update().where(nights.c.name == night), values | {"plan": plan | sums})
    cause = f"{sums['tasks']} tasks are planned, {sums['left_out']} left out"
    record(conn, now, "night", cause=cause, actor=actor, state="planned", detail={"night": night, **sums})
