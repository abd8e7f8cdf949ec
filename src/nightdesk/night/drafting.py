"""A plan as it would be made now. Nothing is stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.house import House
from nightdesk.night.candidates import Offer, Reader, is_candidate
from nightdesk.night.forecast import Forecast, forecast
from nightdesk.night.plan import choose
from nightdesk.night.schedule import belongs
from nightdesk.store import plan_items, tasks


class Line(NamedTuple):
    """One line of a plan. `why`: for a chosen task why in this lane, for another why it is left out."""

    position: int
    offer: Offer
    chosen: bool
    why: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The chosen first, in the order in which they are to be begun, then the others, the most urgent first."""

    lines: list[Line]
    forecast: Forecast


def draft_plan(
    house: House, window: Window, playbooks: Sequence[str], *, by_hand: bool, anyway: Mapping[str, str]
) -> Draft:
    """For the tasks of the night of this window that are in no plan of it yet; for what is left of it, if it is late."""
    now = house.clock.now()
    window = replace(window, start=max(window.start, now))
    with house.db.read() as conn:
        reader = Reader(house, conn, window, anyway)
        reader.promise_planned(now)
        offers = reader.read(is_candidate(now, window) & _is_for(house, window, playbooks, by_hand))
    lines = list(_lines(offers, reader))
    with house.db.read() as conn:
        return Draft(lines, forecast(house, conn, window, reader, [line.offer for line in lines if line.chosen]))


def _lines(offers: Sequence[Offer], reader: Reader) -> Iterator[Line]:
    able = [offer for offer in offers if not offer.refusal]
    choice = choose(able, reader.capacity.caps())
    chosen = [(able[number], able[number].terms.why) for number in choice.chosen]
    others = [(able[number], why) for number, why in choice.left_out.items()]
    others += [(offer, offer.refusal) for offer in offers if offer.refusal]
    others.sort(key=lambda other: (other[0].priority, -other[0].urgency, other[0].id))
    for position, (offer, why) in enumerate(chosen + others, 1):
        yield Line(position, offer, position <= len(chosen), why)


def _is_for(house: House, window: Window, playbooks: Sequence[str], by_hand: bool) -> sa.ColumnElement[bool]:
    """Of these playbooks, or emitted for others by work of the night; and in no line of this plan yet."""
    night = {"name": window.name, "by_hand": by_hand}
    nightly = [playbook.name for playbook in house.registry if playbook.when.is_nightly]
    wanted = tasks.c.playbook.in_(playbooks) | tasks.c.playbook.not_in(nightly)
    known = sa.exists(sa.select(1).where(plan_items.c.night == window.name, plan_items.c.task_id == tasks.c.id))
    return belongs(house, night) & wanted & ~known
