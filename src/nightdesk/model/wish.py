"""One ask as its leg makes it, and what may become of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightdesk.guard.purses import Refusal
from nightdesk.model.asks import Ask
from nightdesk.model.calls import Call
from nightdesk.model.providers.base import Provider
from nightdesk.playbook import Playbook


@dataclass(frozen=True)
class Asked:
    """The leg that asks: its task, its playbook, and the number of its dispatch, by which it holds the task."""

    task: Mapping[Any, Any]
    dispatch: int
    playbook: Playbook

    @property
    def until(self) -> datetime | None:
        """The hard stop of the night that the task is worked on in; other work has none."""
        until: datetime | None = self.task["until"]
        return until


@dataclass
class Diversion:
    """Put up by a caller who can ask another provider instead; `to` says which model, once that is decided.

    `lane` is the one in which the answer came."""

    to: str | None = None
    lane: str | None = None


@dataclass(frozen=True)
class Wish:
    """An ask that the journal has no answer to yet."""

    id: str
    provider: Provider
    ask: Ask
    credential: str
    step: str
    occurrence: int
    position: int
    saved: Call | None
    can_divert: bool
    not_flex: str = ""
    # Whether the task has just been answered live, so that what it asks now begins with what a cache still holds.
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Go:
    """Send it now, in the flex or live lane, after this many seconds; the row says so already."""

    call: dict[str, Any]
    ask: Ask
    output_limit: int
    delay: float
    prefix_key: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """It waits for the next wave of its group."""


@dataclass(frozen=True, slots=True)
class Reused:
    """Another task asked the same before, and the playbook allows its answer to be used."""

    call: Call


@dataclass(frozen=True, slots=True)
class Diverted:
    """The caller is to ask this model instead."""

    to: str


@dataclass(frozen=True, slots=True)
class Held:
    """It cannot be sent now; the task waits for this. `refusal` says which budget a person is to be asked about."""

    kind: str
    why: str
    until: datetime | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """It must not be sent at all; the leg ends with this error."""

    error: BaseException


Outcome = Go | Joined | Reused | Diverted | Held | Stopped


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of a request: `input` is estimated on the high side, `prefix` is the part of it that a cache may hold, and
    `prefix_key` what that part says.

    `ttl` is for how long the request has the prefix cached, if it asks for that; `shape` what it has in common with
    others of its kind.
    """

    input: int
    prefix: int
    prefix_key: str
    ttl: str
    output_limit: int
    shape: str
    media: bool
    searches: int
