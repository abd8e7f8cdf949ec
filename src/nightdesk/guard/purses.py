"""The purses that a call is paid from, by settings, playbook, tenant and the clock; and how money is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from nightdesk.settings import Settings

Scope = Literal["task", "playbook", "tenant", "night", "day"]
Key = tuple[str, str, str]

MICROS = 1_000_000
ALL = "all"
_HALF_A_DAY = timedelta(hours=12)


@dataclass(frozen=True)
class Purse:
    """A budget that is paid from. `day` is the date of a daily one; without a limit it only keeps accounts."""

    scope: Scope
    name: str
    day: str
    limit_micros: int | None

    @property
    def key(self) -> Key:
        return self.scope, self.name, self.day


class Sums(NamedTuple):
    """What the row of a purse says; one without a row has none of it."""

    raised: int = 0
    reserved: int = 0
    spent: int = 0


@dataclass(frozen=True)
class Refusal:
    """The purse that has too little left. Its limit is what it was raised to."""

    purse: Purse
    limit_micros: int
    spent_micros: int
    reserved_micros: int
    asked_micros: int

    @property
    def sentence(self) -> str:
        spent, reserved = dollars(self.spent_micros), dollars(self.reserved_micros)
        return (
            f"The budget of {title(*self.purse.key)} is {dollars(self.limit_micros)}: {spent} is spent and {reserved} "
            f"reserved, and {dollars(self.asked_micros)} more was asked for."
        )


def purses_for(
    settings: Settings,
    playbook: str,
    task_cap: Decimal | None,
    day_cap: Decimal | None,
    tenant: str,
    task_id: str,
    at: datetime,
    night: bool,
) -> list[Purse]:
    """Those that have a limit, and that of the whole day, which keeps the accounts even without one."""
    found = [
        *([purse_of(settings, at, "night")] if night else []),
        purse_of(settings, at, "tenant", tenant),
        purse_of(settings, at, "playbook", playbook, day_cap),
        purse_of(settings, at, "task", task_id, task_cap),
    ]
    return [purse_of(settings, at, "day"), *(purse for purse in found if purse.limit_micros is not None)]


def purse_of(settings: Settings, at: datetime, scope: Scope, name: str = "", cap: Decimal | None = None) -> Purse:
    """The one of this scope and name; the day's and the night's need none. `cap` is what the playbook states."""
    caps, day = settings.budget, local_day(settings, at)
    of_tenant = caps.tenant[name].day if name in caps.tenant else caps.tenant_day
    called, of_day, stated = {
        "day": (ALL, day, caps.day),
        "night": (night_of(settings, at), "", caps.night),
        "tenant": (name, day, of_tenant),
        "playbook": (name, day, caps.playbook_day),
        "task": (name, "", caps.task),
    }[scope]
    limit = cap if cap is not None else _stated(stated)
    return Purse(scope, called, of_day, None if limit is None else to_micros(limit))


def refusal_of(purses: Sequence[Purse], sums: Mapping[Key, Sums], micros: int) -> Refusal:
    """Names the fullest of the purses that have too little left for so much more, of which there is one."""
    over = [purse for purse in purses if _is_over(purse, sums[purse.key], micros)]
    purse = max(over, key=lambda purse: share(purse, sums[purse.key]))
    held = sums[purse.key]
    return Refusal(purse, (purse.limit_micros or 0) + held.raised, held.spent, held.reserved, micros)


def share(purse: Purse, sums: Sums) -> float:
    """How full a purse with a limit is: 1.0 when all of it is spent or reserved."""
    limit = (purse.limit_micros or 0) + sums.raised
    return (sums.spent + sums.reserved) / limit if limit else 1.0


def local_day(settings: Settings, at: datetime) -> str:
    """The date in the house's time zone."""
    return at.astimezone(ZoneInfo(settings.night.zone)).date().isoformat()


def night_of(settings: Settings, at: datetime) -> str:
    """The date of the evening that the night began in: what happens before noon belongs to the evening before."""
    return (at.astimezone(ZoneInfo(settings.night.zone)) - _HALF_A_DAY).date().isoformat()


def next_day(settings: Settings, at: datetime) -> datetime:
    """When the next date begins in the house's time zone, and with it new daily budgets."""
    zone = ZoneInfo(settings.night.zone)
    tomorrow = at.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time(), zone).astimezone(UTC)


def title(scope: str, name: str, day: str) -> str:
    """What the purse is called in a sentence."""
    if scope == "day":
        return f"the day {day}"
    if scope == "night":
        return f"the night of {name}"
    return f"{scope} {name}" + (f" for {day}" if day else "")


def to_micros(amount: Decimal) -> int:
    """Dollars in whole millionths; a fraction of one is cut off."""
    return int((amount * MICROS).to_integral_value(ROUND_FLOOR))


def dollars(micros: int) -> str:
    """With cents, and with more digits only where there are any."""
    whole, fraction = divmod(abs(micros), MICROS)
    digits = f"{fraction:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if micros < 0 else ''}${whole:,}.{digits}"


def _is_over(purse: Purse, sums: Sums, micros: int) -> bool:
    if purse.limit_micros is None:
        return False
    return sums.spent + sums.reserved + micros > purse.limit_micros + sums.raised


def _stated(setting: str) -> Decimal | None:
    return Decimal(setting) if setting else None
