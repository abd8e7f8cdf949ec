"""The simulated model with its clock, its bill and its faults: one request in, one answer out."""

import threading
import time
from datetime import UTC, datetime

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import reply, script
from nightdesk.model.simulator.behaviour import Behaviour, FaultKind, Faults
from nightdesk.model.simulator.bodies import MISREAD
from nightdesk.model.simulator.caching import PromptCache, Spent
from nightdesk.model.simulator.dialect import Answered, Dialect
from nightdesk.model.simulator.meter import Lane, Meter, identity
from nightdesk.model.simulator.prompts import Prompt
from nightdesk.model.simulator.refusals import Refusal

# How long a request hangs that is to hang for no certain time.
ENDLESS = 3600.0


class Model:
    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.faults = Faults()
        self.meter = Meter()
        self.advanced = 0.0
        self._cache = PromptCache()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since 1970 on the simulator's clock, which can be moved forward."""
        return time.time() + self.advanced

    def execute(self, dialect: Dialect, body: dict[str, Json], lane: Lane) -> dict[str, Json]:
        """Answer one request and bill it. What its script refuses is not billed."""
        try:
            return self._executed(dialect, body, lane)
        except MISREAD as error:
            # The request passed the checks of its outline; the provider would name the field.
            raise Refusal(400, f"The request cannot be understood: {error!r}") from error

    def fail_if(self, kind: FaultKind, provider: str) -> None:
        """Refuse with the fault's status if this one is set."""
        if fault := self.faults.take(kind, provider):
            raise Refusal(fault.status, code=fault.code, retry_after=fault.seconds or None)

    def _executed(self, dialect: Dialect, body: dict[str, Json], lane: Lane) -> dict[str, Json]:
        prompt = dialect.read(body)
        orders = script(prompt)
        if "status" in orders:
            raise _ordered(orders["status"])
        made = reply(prompt, orders)
        key = identity(dialect.provider, body)
        with self._lock:
            spent = self._spent(dialect, prompt, made.output_tokens * prompt.answers, lane)
        answer = dialect.write(Answered(key, body, made, spent, lane, int(self.now()), prompt.answers))
        self.meter.count(key, dialect.provider, prompt.model, lane, spent)
        return answer

    def _spent(self, dialect: Dialect, prompt: Prompt, output: int, lane: Lane) -> Spent:
        behaviour = self.behaviour
        count = self._cache.marked if dialect.marks_cache else self._cache.automatic
        luck = behaviour.cache_hit_rate if lane == "batch" else 1.0
        return count(prompt, output, self.now(), behaviour.cache_minimum, luck)


def _ordered(status: Json) -> Refusal:
    if isinstance(status, int) and 400 <= status <= 599:
        return Refusal(status)
    raise ValueError(f"{status!r} is not the status of an error")


def timestamp(seconds: float | None) -> str | None:
    """As Anthropic and Gemini write a time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
