"""Whose nights they are: the house has nights for its playbooks, and a playbook with hours of its own has its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.house import House
from nightdesk.settings import NightSettings
from nightdesk.store import nights, tasks

Night = Mapping[Any, Any]  # a row of nights
UNDER_WAY = ("planned", "open", "closing")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The hours of these playbooks' nights. The house's own has no owner."""

    owner: str
    hours: NightSettings
    playbooks: tuple[str, ...]

    def named(self, window: Window) -> Window:
        """The window by the name that the night has as a row."""
        return replace(window, name=f"{window.name}.{self.owner}") if self.owner else window


def schedules(house: House) -> list[Schedule]:
    """The house's first."""
    nightly = [playbook for playbook in house.registry if playbook.when.is_nightly]
    hours = house.settings.night
    shared = tuple(playbook.name for playbook in nightly if not playbook.window)
    own = [Schedule(pb.name, hours.model_copy(update=pb.window), (pb.name,)) for pb in nightly if pb.window]
    return [Schedule("", hours, shared), *own]


def playbooks_of(house: House, night: Night) -> tuple[str, ...]:
    """The playbooks that a night is for; one by hand is for all of the night's."""
    if night["by_hand"]:
        return tuple(playbook.name for playbook in house.registry if playbook.when.is_nightly)
    owner = night["name"].partition(".")[2]
    return next((schedule.playbooks for schedule in schedules(house) if schedule.owner == owner), ())


def belongs(house: House, night: Night) -> sa.ColumnElement[bool]:
    """Tasks of the night's playbooks; and those that nightly work has emitted for others, unless it is one playbook's
    own night."""
    of_playbooks = tasks.c.playbook.in_(playbooks_of(house, night))
    if not night["by_hand"] and "." in night["name"]:
        return of_playbooks
    nightly = [playbook.name for playbook in house.registry if playbook.when.is_nightly]
    return of_playbooks | (tasks.c.until.is_not(None) & tasks.c.playbook.not_in(nightly))


def nights_under_way(house: House) -> list[Night]:
    """All that are not closed, the earliest first."""
    query = sa.select(nights).where(nights.c.state.in_(UNDER_WAY)).order_by(nights.c.starts_at, nights.c.name)
    with house.db.read() as conn:
        return list(conn.execute(query).mappings())


def read_night(house: House, name: str) -> Night:
    with house.db.read() as conn:
        return conn.execute(sa.select(nights).where(nights.c.name == name)).mappings().one()
