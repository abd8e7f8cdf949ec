"""How the simulator behaves: settings that hold until they are changed, and faults, which are used up or cleared."""

import threading
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

from nightdesk.canonical import Json

FaultKind = Literal[
    "status",
    "hang",
    "cut_off",
    "auth",
    "spend_stop",
    "no_flex",
    "create_refused",
    "create_lost",
    "create_hang",
    "batch_failed",
    "not_found",
    "poll_refused",
    "stuck",
    "counts_zero",
    "expire",
    "fail",
    "results_cut",
    "results_broken",
    "results_duplicate",
    "results_missing",
    "results_unknown",
    "results_gone",
    "results_slow",
]
KINDS: frozenset[str] = frozenset(get_args(FaultKind))
PROVIDERS = ("anthropic", "openai", "gemini")
# Ten years, in seconds; clocks cannot show much more.
MOST = 315_360_000
_OPTIONAL = ("requests_per_second", "input_tokens_per_minute", "queued_tokens")


@dataclass
class Behaviour:
    """Times are in seconds. A limit that is None does not exist."""

    latency: float = 0.0
    requests_per_second: float | None = None
    input_tokens_per_minute: float | None = None
    batch_seconds: float = 2.0
    cancel_seconds: float = 0.0
    queued_tokens: int | None = None
    shuffled: bool = True
    cache_hit_rate: float = 0.6  # of the cached prefixes that requests in a batch could have read
    cache_minimum: int = 1024

    def change(self, settings: dict[str, Json]) -> None:
        """Set what is named. An unknown name or a value of the wrong type changes nothing and is a ValueError."""
        known = {field.name for field in fields(self)}
        for name, value in settings.items():
            if name not in known:
                raise ValueError(f"there is no setting {name!r}; there are {', '.join(sorted(known))}")
            _check(name, value)
        for name, value in settings.items():
            setattr(self, name, value)


def is_amount(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check(name: str, value: Json) -> None:
    if name == "shuffled":
        fits = isinstance(value, bool)
    elif value is None:
        fits = name in _OPTIONAL
    else:
        fits = is_amount(value)
    if not fits:
        raise ValueError(f"{name} cannot be {value!r}")


@dataclass
class Fault:
    """Something that goes wrong: for one provider or for all, the next `times` times or until it is cleared.

    `status`, `code`, `seconds` and `share` are read by the kinds that have a use for them.
    """

    kind: FaultKind
    provider: str = ""
    times: int | None = None
    status: int = 500
    code: str = ""
    seconds: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no fault {self.kind!r}; there are {', '.join(sorted(KINDS))}")
        if self.provider not in ("", *PROVIDERS):
            raise ValueError(f"there is no provider {self.provider!r}; there are {', '.join(PROVIDERS)}")
        if self.times is not None and not (_is_whole(self.times) and self.times >= 1):
            raise ValueError("a fault happens once at least")
        if not (_is_whole(self.status) and 400 <= self.status <= 599):
            raise ValueError(f"{self.status!r} is not the status of an error")
        if not (is_amount(self.seconds) and is_amount(self.share) and self.share <= 1 and isinstance(self.code, str)):
            raise ValueError("`seconds` is at least 0, `share` between 0 and 1, and `code` a word")

    def covers(self, kind: FaultKind, provider: str) -> bool:
        return self.kind == kind and self.provider in ("", provider)


class Faults:
    """The faults that are set, the oldest first."""

    def __init__(self) -> None:
        self._set: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._set.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._set.clear()

    def active(self, kind: FaultKind, provider: str) -> Fault | None:
        """The fault, without using it up."""
        with self._lock:
            return next((fault for fault in self._set if fault.covers(kind, provider)), None)

    def take(self, kind: FaultKind, provider: str) -> Fault | None:
        """The fault, if there is one to happen now; one with a count has then happened once more."""
        if not self._set:  # nearly always, and this is asked several times for each request
            return None
        with self._lock:
            found = next((fault for fault in self._set if fault.covers(kind, provider)), None)
            if found is not None and found.times is not None:
                found.times -= 1
                if found.times == 0:
                    self._set.remove(found)
            return found

    def shown(self) -> list[Json]:
        with self._lock:
            return [asdict(fault) for fault in self._set]
