"""What a rehearsal tries out, from the words of a person."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from nightdesk.calendar import Window, next_window, window_of
from nightdesk.errors import Invalid, NotFound
from nightdesk.model.simulator import Fault
from nightdesk.model.simulator.behaviour import KINDS, PROVIDERS
from nightdesk.settings import NightSettings, nearest

_FAULT = re.compile(r"(?P<kind>[a-z_]+)(?::(?P<provider>[a-z]+))?(?:\*(?P<times>[1-9]\d{0,5}))?")


_INSTEAD = {"create_hang": "create_lost", "results_slow": "results_cut"}


@dataclass(frozen=True)
class Plan:
    """Which night, how quick the providers are, what goes wrong, and which tasks: at most so many, of one playbook."""

    window: Window
    latency: float = 2.0
    batch_seconds: float = 2700.0
    faults: Sequence[Fault] = ()
    playbook: str | None = None
    most: int = 1000

    @property
    def start(self) -> datetime:
        return self.window.start


def read_night(stated: str, settings: NightSettings, now: datetime) -> Window:
    """The night that begins in the evening of this date, from now on if it is open already; `tonight` is the next to
    open."""
    if stated == "tonight":
        window = next_window(settings, now)
        if window is None:
            raise NotFound("No day is a night's.", "State a date, or days in nightdesk.toml under [night].")
        return window
    try:
        evening = date.fromisoformat(stated)
    except ValueError:
        fault = (stated, "is neither a date, as in 2030-01-31, nor tonight")
        raise Invalid("There is no such night", [fault]) from None
    window = window_of(settings, evening)
    if window.stop <= now:
        raise Invalid("That night is over", [(stated, "has passed")], "Name one to come, or tonight.")
    return replace(window, start=max(window.start, now))


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
