"""Which lane a call takes, and why: what it costs there, and what the clock allows."""

from collections.abc import Mapping
from dataclasses import dataclass

from nightdesk.model.prices import Lane
from nightdesk.playbook.definition import Lane as Pinned

# Time beyond a batch's estimate that there must be until the deadline.
_MARGIN = 1.2


@dataclass(frozen=True, slots=True)
class Question:
    """All that the choice rests on. `costs` are the expected ones of the call in each lane, in dollars; `closed` has
    the lanes that are no choice now, with the reason; at `last_call` no batch is begun; `returned` says why it is not
    to join another wave; `seconds` how long an answer takes."""

    pinned: Pinned
    priority: int
    canary: bool
    has_flex: bool
    closed: Mapping[Lane, str]
    last_call: bool
    returned: str
    seconds_left: float | None
    seconds: Mapping[Lane, float]
    costs: Mapping[Lane, float]


@dataclass(frozen=True, slots=True)
class Route:
    lane: Lane
    reason: str


def choose(question: Question) -> Route:
    return settled(question) or _cheapest(question)


def settled(question: Question) -> Route | None:
    """What needs no arithmetic, and no costs."""
    if question.pinned == "live":
        return Route("live", "the playbook asks for it")
    if question.pinned == "auto" and question.priority <= 1:
        return Route("live", f"P{question.priority} does not wait")
    if question.pinned == "flex":
        if question.has_flex and "flex" not in question.closed:
            return Route("flex", "the playbook asks for it")
        return Route("live", f"the playbook asks for flex, but {question.closed.get('flex', 'there is none here')}")
    if question.canary and "live" not in question.closed:
        return Route("live", "the first request of this shape goes ahead of its wave")
    if question.pinned == "batch" and not question.returned and _in_time(question, "batch"):
        return Route("batch", "the playbook asks for it")
    return None


def _cheapest(question: Question) -> Route:
    costs = {lane: cost for lane, cost in question.costs.items() if _is_choice(question, lane)}
    # Between equals the batch wins, then flex: they leave the live rate limits to those who cannot wait.
    order: list[Lane] = ["batch", "flex", "live"]
    lane = min((lane for lane in order if lane in costs), key=lambda lane: costs[lane])
    compared = ", ".join(f"{name} ${costs[name]:.6f}" for name in order if name in costs)
    without = _why_no_batch(question)
    return Route(lane, f"{without + '; ' if without else ''}cheapest by estimate: {compared}")


def _is_choice(question: Question, lane: Lane) -> bool:
    if lane == "live":
        return True
    has = question.has_flex if lane == "flex" else not question.returned
    return has and lane not in question.closed and _in_time(question, lane)


def _in_time(question: Question, lane: Lane) -> bool:
    if lane == "batch" and question.last_call:
        return False
    needed = question.seconds[lane] * (_MARGIN if lane == "batch" else 1)
    return question.seconds_left is None or question.seconds_left >= needed


def _why_no_batch(question: Question) -> str:
    if question.returned or "batch" in question.closed:
        return question.returned or question.closed["batch"]
    if _in_time(question, "batch"):
        return ""
    if question.last_call:
        return "it is last call"
    left, takes = (question.seconds_left or 0) / 60, question.seconds["batch"] / 60
    return f"{left:.0f} min left are too few for a batch of {takes:.0f} min"
