"""When a plan should be through, and how likely it is that its batches are back in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.model.deadline import last_call
from nightdesk.model.estimates import seconds_of_batches
from nightdesk.model.routing import LIVE_SECONDS
from nightdesk.night.candidates import Offer, Reader

_Route = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Forecast:
    """`odds` is the share of past batches with which all would be back before last call; None where nothing goes by
    batch, or where none was seen yet."""

    finish: datetime
    odds: float | None
    says: str

    def as_json(self) -> dict[str, Json]:
        return {"finish": self.finish.isoformat().replace("+00:00", "Z"), "odds": self.odds, "odds_of": self.says}


def forecast(house: House, conn: sa.Connection, window: Window, reader: Reader, chosen: Sequence[Offer]) -> Forecast:
    """Turns go by waves: as many batches, one after the other, as the longest of the tasks has turns."""
    waves = _waves(chosen)
    settle = house.settings.waves.settle_seconds
    seconds = [turns * (reader.estimates.batch_seconds(conn, *route) + settle) for route, turns in waves.items()]
    seconds.append(reader.capacity.seconds_for(offer.needs for offer in chosen))
    seconds.append(LIVE_SECONDS * max((offer.terms.requests for offer in chosen), default=0))
    last_start = max((offer.starts_at for offer in chosen), default=window.start)
    finish = min(window.stop, max(last_start, window.start + timedelta(seconds=max(seconds))))
    return Forecast(finish, *_odds(house, conn, window, waves))


def _waves(chosen: Sequence[Offer]) -> dict[_Route, int]:
    found: dict[_Route, int] = {}
    for offer in chosen:
        if offer.terms.route and offer.terms.batch_turns:
            found[offer.terms.route] = max(found.get(offer.terms.route, 0), offer.terms.batch_turns)
    return found


def _odds(house: House, conn: sa.Connection, window: Window, waves: dict[_Route, int]) -> tuple[float | None, str]:
    if not waves:
        return None, "nothing of it waits for a batch"
    until_last_call = (last_call(house.settings.night, window.stop) - window.start).total_seconds()
    worst: tuple[float, str] | None = None
    for route, turns in waves.items():
        took = seconds_of_batches(conn, *route)
        if not took:
            minutes = f"{house.settings.model.batch_minutes:g} minutes"
            return None, f"no batch of {':'.join(route)} was seen yet; it is taken to need {minutes}"
        each = until_last_call / turns - house.settings.waves.settle_seconds
        in_time = sum(seconds <= each for seconds in took)
        says = f"{in_time} of the last {len(took)} batches of {':'.join(route)} would be back in time"
        worst = min(worst or (2.0, ""), (in_time / len(took), says))
    assert worst is not None
    return worst
