"""What a rehearsal tries out, from the words of a person."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from nightdesk.errors import Invalid
from nightdesk.model.deadline import hard_stop, next_start
from nightdesk.model.simulator import Fault
from nightdesk.model.simulator.behaviour import KINDS, PROVIDERS
from nightdesk.settings import NightSettings, nearest

_FAULT = re.compile(r"(?P<kind>[a-z_]+)(?::(?P<provider>[a-z]+))?(?:\*(?P<times>[1-9]\d{0,5}))?")


_INSTEAD = {"create_hang": "create_lost", "results_slow": "results_cut"}


@dataclass(frozen=True)
class Plan:
    """From when, how quick the providers are, what goes wrong, and which tasks: at most so many, of one playbook."""

    start: datetime
    latency: float = 2.0
    batch_seconds: float = 2700.0
    faults: Sequence[Fault] = ()
    playbook: str | None = None
    most: int = 1000


def read_night(stated: str, settings: NightSettings, now: datetime) -> datetime:
    """When the night opens that begins in the evening of this date, or now if it is open already; `tonight` is the
    next to open."""
    if stated == "tonight":
        return next_start(settings, now)
    try:
        evening = date.fromisoformat(stated)
    except ValueError:
        fault = (stated, "is neither a date, as in 2030-01-31, nor tonight")
        raise Invalid("There is no such night", [fault]) from None
    start = next_start(settings, datetime.combine(evening, time(12), ZoneInfo(settings.zone)).astimezone(UTC))
    if hard_stop(settings, start) <= now:
        raise Invalid("That night is over", [(stated, "has passed")], "Name one to come, or tonight.")
    return max(start, now)


def read_fault(stated: str) -> Fault:
    """As `kind`, `kind:provider` or `kind:provider*times`."""
    found = _FAULT.fullmatch(stated)
    if found is None or found["kind"] not in KINDS:
        hint = nearest(stated.partition(":")[0].partition("*")[0], sorted(KINDS))
        raise Invalid("There is no such fault", [(stated, f"is none{hint}")], "State it as in status:anthropic*5.")
    if found["provider"] not in (None, *PROVIDERS):
        raise Invalid(
            "There is no such provider", [(stated, f"is of none{nearest(found['provider'], list(PROVIDERS))}")]
        )
    if found["kind"] in _INSTEAD:
        fault = (stated, f"needs time, which a rehearsal does not take; the same comes of {_INSTEAD[found['kind']]}")
        raise Invalid("This fault cannot be rehearsed", [fault])
    times = int(found["times"]) if found["times"] else None
    return Fault(found["kind"], found["provider"] or "", times=times)  # type: ignore[arg-type] # it is one of KINDS
