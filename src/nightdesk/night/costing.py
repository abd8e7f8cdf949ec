"""What a task will take: lane, money, time, requests and tokens; by what was learned, else by prices and sizes.

The lane is the one that the router would choose at the start of the window. What a task costs at worst is its cap; one
without a cap costs at worst what the dearest of its playbook has cost, or what all its turns would cost live.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import sqlalchemy as sa

from nightdesk.calendar import Window
from nightdesk.errors import NotFound
from nightdesk.guard.purses import MICROS, purse_of
from nightdesk.house import House
from nightdesk.model import prices
from nightdesk.model.estimates import Estimates, Habits
from nightdesk.model.prices import Lane
from nightdesk.model.providers import find
from nightdesk.model.router import Question, Route, choose
from nightdesk.model.routing import LANES, LIVE_SECONDS
from nightdesk.playbook import Playbook
from nightdesk.store import tasks

# So many of the last results are looked at, and so few of a playbook's are not enough to go by.
_LOOKED_AT, _ENOUGH = 2000, 5
# A request has more than its words: its frame and the schema of its answer. English has 3 letters to a token at least.
_FRAME_TOKENS, _LETTERS_PER_TOKEN = 300, 3
# For how long a turn holds a place of a worker if its answer comes by batch, and a task that asks no model.
_SHORT_MS = 1000


@dataclass(frozen=True, slots=True)
class Terms:
    """What the tasks of one playbook take that are of about one size and of like urgency. `refusal`: they cannot be
    done, and why. Of requests and tokens there are those that go out live or flex, and those that queue in batches."""

    why: str
    lane: Lane | None = None
    route: tuple[str, str] | None = None
    worst_micros: int = 0
    likely_micros: int = 0
    work_ms: int = _SHORT_MS
    batch_turns: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    queued_tokens: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class _Past:
    """What the last results of one version of a playbook have cost, and how long they were worked on."""

    most_micros: int
    mean_micros: int
    mean_ms: int


class Costing:
    """For one window; each answer is worked out once."""

    def __init__(self, house: House, conn: sa.Connection, window: Window, estimates: Estimates) -> None:
        self._house = house
        self._conn = conn
        self._window = window
        self._estimates = estimates
        self._past = _read_past(conn)
        self._known: dict[tuple[str, int, int], Terms] = {}

    def terms(self, playbook: Playbook, priority: int, letters: int) -> Terms:
        """`letters` is the length of the task's input, rounded up."""
        key = playbook.name, min(priority, 2), letters
        if key not in self._known:
            self._known[key] = self._terms(playbook, priority, letters)
        return self._known[key]

    def _terms(self, playbook: Playbook, priority: int, letters: int) -> Terms:
        past = self._past.get((playbook.name, playbook.version))
        if playbook.asking.use is None:
            return _without_model(past)
        try:
            day = self._window.start.date()
            turns = _Turns(self._house, self._conn, self._estimates, playbook, letters, day)
        except NotFound as error:
            return Terms(why="", refusal=f"its model cannot be asked: {error.problem}")
        worst, costs = turns.worst_micros(), turns.costs()
        if worst is None or costs is None:
            return Terms(why="", refusal=f"its model has no known price: state budget.call for {turns.model}")
        routes = turns.routes(priority, costs, (self._window.stop - self._window.start).total_seconds())
        batch = sum(route.lane == "batch" for route in routes)
        likely = math.ceil(sum(costs[route.lane] for route in routes) * MICROS)
        worst = self._cap(playbook) or (past.most_micros if past else worst)
        live = len(routes) - batch
        return Terms(
            why=routes[0].reason,
            lane=routes[0].lane,
            route=(turns.provider.name, turns.model),
            worst_micros=worst,
            likely_micros=min(worst, past.mean_micros if past else likely),
            work_ms=past.mean_ms if past else round(live * LIVE_SECONDS * 1000) + batch * _SHORT_MS,
            batch_turns=batch,
            requests=live,
            input_tokens=live * turns.input_tokens,
            output_tokens=live * turns.output_tokens,
            queued_tokens=batch * turns.input_tokens,
        )

    def _cap(self, playbook: Playbook) -> int | None:
        purse = purse_of(self._house.settings, self._window.start, "task", "", playbook.asking.task_cap)
        return purse.limit_micros


class _Turns:
    """The calls that a task is expected to make, all taken as of its middle: the input grows by what was answered."""

    def __init__(
        self, house: House, conn: sa.Connection, estimates: Estimates, playbook: Playbook, letters: int, day: date
    ) -> None:
        asking, settings = playbook.asking, house.settings.model
        provider, _, self.model = (asking.use or "").partition(":")
        self.provider = find(provider)
        self._night, self._playbook, self._day = house.settings.night, playbook, day
        habits: Habits = estimates.habits(conn, playbook.name)
        expected = math.ceil(habits.turns_to_expect(tools=bool(playbook.definition.get("tools"))))
        self._count = min(expected, asking.turns or settings.turns)
        self._output_limit = asking.tokens or settings.output_tokens
        self.output_tokens = math.ceil(habits.output_to_expect(self._output_limit))
        letters += len(str(playbook.definition.get("instructions") or ""))
        self._first_input = _FRAME_TOKENS + letters // _LETTERS_PER_TOKEN
        self.input_tokens = self._first_input + (self._count - 1) * self.output_tokens // 2
        self._takes: dict[Lane, float] = {
            "batch": estimates.batch_seconds(conn, self.provider.name, self.model),
            "flex": settings.flex_minutes * 60,
            "live": LIVE_SECONDS,
        }

    def worst_micros(self) -> int | None:
        """If each answer were as long as it may be and all were asked live; None if the model has no known price."""
        last_input = self._first_input + (self._count - 1) * self._output_limit
        cost = prices.worst_case(self.provider.name, self.model, last_input, self._output_limit, "live", day=self._day)
        known = self._playbook.asking.call_ceiling if cost is None else cost
        return None if known is None else prices.micros(known * self._count)

    def costs(self) -> dict[Lane, float] | None:
        """What one turn may be expected to cost in each lane, in dollars."""
        live = self._cost("live")
        return None if live is None else {lane: float(self._cost(lane) or live) for lane in LANES}

    def _cost(self, lane: Lane) -> Decimal | None:
        known = prices.expected(
            self.provider.name,
            self.model,
            lane,
            day=self._day,
            new_input=self.input_tokens,
            output=self.output_tokens,
        )
        return self._playbook.asking.call_ceiling if known is None else known

    def routes(self, priority: int, costs: dict[Lane, float], seconds_left: float) -> Sequence[Route]:
        """One for each turn, as the router would choose if each began when the one before it is answered."""
        found = []
        for _ in range(self._count):
            question = Question(
                pinned=self._playbook.asking.lane,
                priority=priority,
                canary=False,
                has_flex=self.provider.has_flex,
                closed={},
                last_call=seconds_left <= self._night.last_call_minutes * 60,
                returned="",
                seconds_left=seconds_left,
                seconds=self._takes,
                costs=costs,
            )
            found.append(choose(question))
            seconds_left -= self._takes[found[-1].lane]
        return found


def _without_model(past: _Past | None) -> Terms:
    if past is None:
        return Terms(why="it states no model")
    return Terms(
        why="it states no model",
        worst_micros=past.most_micros,
        likely_micros=past.mean_micros,
        work_ms=past.mean_ms,
    )


def rounded_up(letters: int) -> int:
    """By a quarter of it at most, so that many inputs are of one size."""
    step = 1 << max(6, letters.bit_length() - 3)
    return -(-letters // step) * step


def _read_past(conn: sa.Connection) -> dict[tuple[str, str], _Past]:
    """By playbook and version, from the last results of the house; what is longer ago is forgotten."""
    found = defaultdict(list)
    for state in ("done", "review"):
        last = (
            sa.select(tasks.c.playbook, tasks.c.playbook_version, tasks.c.cost_usd, tasks.c.worked_ms)
            .where(tasks.c.state == state)
            .order_by(tasks.c.created_at.desc())
            .limit(_LOOKED_AT)
        )
        for playbook, version, cost, worked_ms in conn.execute(last):
            found[playbook, version].append((prices.micros(cost), worked_ms))
    return {key: _summed_up(results) for key, results in found.items() if len(results) >= _ENOUGH}


def _summed_up(results: Sequence[tuple[int, int]]) -> _Past:
    costs, times = zip(*results, strict=True)
    return _Past(max(costs), math.ceil(sum(costs) / len(costs)), math.ceil(sum(times) / len(times)))
