"""The plan as people see it: the stored one of a night under way, else what it would be if it were made now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from nightdesk.calendar import Window, next_night, running_nights
from nightdesk.canonical import Json
from nightdesk.errors import NotFound
from nightdesk.house import House
from nightdesk.night.drafting import Line, draft_plan
from nightdesk.night.reviewing import minutes_in_a_morning
from nightdesk.night.schedule import UNDER_WAY, Night, Schedule, belongs, schedules
from nightdesk.night.sums import usd
from nightdesk.settings import nearest
from nightdesk.store import nights, plan_items, tasks

_i, _t = plan_items.c, tasks.c
_NAMED = 20


class Item(NamedTuple):
    """One task of a plan."""

    task: str
    playbook: str
    tenant: str
    priority: int
    lane: str | None
    worst_micros: int
    likely_micros: int
    review_minutes: float
    chosen: bool
    why: str


@dataclass(frozen=True, slots=True)
class Shown:
    """`state` is empty for a plan that is not made yet; `sums` are as they are stored with the night. `later` counts
    the tasks that came after its cut-off, so that they are for another."""

    night: str
    state: str
    cutoff_at: datetime
    starts_at: datetime
    stops_at: datetime
    later: int
    sums: dict[str, Json]
    items: Sequence[Item]


def show_plan(house: House, name: str | None = None) -> Shown:
    """Of the night of this name, or of the first under way; of one that is not planned yet as it would be now."""
    night = _stored(house, name)
    if night is not None:
        return _as_stored(house, night)
    coming = _coming(house)
    if name is None and coming:
        name = next(iter(coming))
    if name not in coming:
        raise _unknown(house, name, list(coming))
    return _as_it_would_be(house, *coming[name])


def _stored(house: House, name: str | None) -> Night | None:
    query = sa.select(nights).where(nights.c.state.in_(UNDER_WAY) if name is None else nights.c.name == name)
    with house.db.read() as conn:
        return conn.execute(query.order_by(nights.c.starts_at, nights.c.name).limit(1)).mappings().one_or_none()


def _coming(house: House) -> dict[str, tuple[Window, Schedule]]:
    """The nights that are or should be under way, and those that are next, by name: the house's first."""
    now = house.clock.now()
    found = {}
    for schedule in schedules(house):
        following = next_night(schedule.hours, now)
        for window in (*running_nights(schedule.hours, now), *([following] if following else [])):
            named = schedule.named(window)
            found[named.name] = named, schedule
    return found


def _unknown(house: House, name: str | None, coming: list[str]) -> NotFound:
    if name is None:
        return NotFound("There is no night to come.", "Name days for it in nightdesk.toml: [night] days = [...]")
    with house.db.read() as conn:
        last = conn.scalars(sa.select(nights.c.name).order_by(nights.c.starts_at.desc()).limit(_NAMED))
        hint = nearest(name, [*last, *coming])
    return NotFound(f'There is no plan of a night "{name[:64]}"{hint}.', "See the next: nightdesk plan")


def _as_stored(house: House, night: Night) -> Shown:
    columns = (
        _t.id, _t.playbook, _t.tenant, _t.priority, _i.lane, _i.worst_micros, _i.likely_micros, _i.review_minutes,
        _i.chosen, _i.why,
    )  # fmt: skip
    query = sa.select(*columns).join(plan_items, _i.task_id == _t.id).where(_i.night == night["name"])
    with house.db.read() as conn:
        items = [Item._make(row) for row in conn.execute(query.order_by(_i.chosen.desc(), _i.position))]
    moments = (night["cutoff_at"], night["starts_at"], night["stops_at"])
    later = _count_later(house, night, night["cutoff_at"])
    return Shown(night["name"], night["state"], *moments, later, night["plan"], items)


def _as_it_would_be(house: House, window: Window, schedule: Schedule) -> Shown:
    draft = draft_plan(house, window, schedule.playbooks, by_hand=False, anyway={})
    items = [_item(line) for line in draft.lines]
    sums = {**_sums(items), **draft.forecast.as_json(), "reviewer_minutes": minutes_in_a_morning(house.settings.night)}
    later = _count_later(house, {"name": window.name, "by_hand": False}, window.cutoff)
    return Shown(window.name, "", window.cutoff, window.start, window.stop, later, sums, items)


def _count_later(house: House, night: Night, cutoff: datetime) -> int:
    late = (_t.state == "queued") & _t.rank.is_(None) & (_t.created_at > cutoff) & (_t.priority > 1)
    query = sa.select(sa.func.count()).select_from(tasks).where(late, belongs(house, night))
    with house.db.read() as conn:
        return int(conn.execute(query).scalar_one())


def _item(line: Line) -> Item:
    offer = line.offer
    return Item(
        offer.id, offer.playbook, offer.tenant, offer.priority, offer.terms.lane, offer.worst_micros,
        offer.likely_micros, offer.review_minutes, line.chosen, line.why,
    )  # fmt: skip


def _sums(items: Sequence[Item]) -> dict[str, Json]:
    chosen = [item for item in items if item.chosen]
    return {
        "tasks": len(chosen),
        "left_out": len(items) - len(chosen),
        "worst_usd": usd(sum(item.worst_micros for item in chosen)),
        "likely_usd": usd(sum(item.likely_micros for item in chosen)),
        "review_minutes": round(sum(item.review_minutes for item in chosen), 3),
    }
