"""From a call and what is known of its surroundings to the router's question."""

from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from nightdesk.guard import breakers
from nightdesk.model import prices
from nightdesk.model.asks import Ask
from nightdesk.model.deadline import CALLED_BACK, last_call
from nightdesk.model.estimates import Habits
from nightdesk.model.prices import Lane
from nightdesk.model.room import ModelRoom
from nightdesk.model.router import Question, Route, choose, settled
from nightdesk.model.shapes import is_canary
from nightdesk.model.wish import Asked, Sizes, Wish
from nightdesk.store import calls

LANES: tuple[Lane, ...] = ("batch", "flex", "live")
# How long a live answer takes; with less left of the night, nothing is begun.
LIVE_SECONDS = 30.0
# Without a deadline, a call that comes back unanswered may join a wave once more.
_MOST_WAVES = 2


@dataclass(frozen=True, slots=True)
class Routing:
    room: ModelRoom
    asked: Asked
    wish: Wish

    def seconds_left(self, now: datetime) -> float | None:
        """Until the hard stop, for work of the night; other work has no deadline."""
        return None if self.asked.until is None else (self.asked.until - now).total_seconds()

    def route(self, conn: sa.Connection, now: datetime, ask: Ask, sizes: Sizes) -> Route:
        question = self._question(conn, now, ask, sizes)
        return settled(question) or choose(replace(question, costs=self._costs(conn, ask, sizes)))

    def _question(self, conn: sa.Connection, now: datetime, ask: Ask, sizes: Sizes) -> Question:
        """Without the costs, which are not asked for where the lane is settled."""
        house, pinned = self.room.house, self.asked.playbook.asking.lane
        tries_shapes = house.settings.waves.canary and not self.room.knows_shape(sizes.shape)
        return Question(
            pinned=pinned,
            priority=self.asked.task["priority"],
            canary=tries_shapes and is_canary(conn, now, sizes.shape, self.wish.id),
            has_flex=self.wish.provider.has_flex,
            closed={} if pinned == "live" else self._closed(conn, now, ask),
            last_call=self._is_last_call(now),
            returned=self._returned(now),
            seconds_left=self.seconds_left(now),
            seconds={
                "batch": self.room.estimates.batch_seconds(conn, ask.provider, ask.model),
                "flex": house.settings.model.flex_minutes * 60,
                "live": LIVE_SECONDS,
            },
            costs={},
        )

    def _closed(self, conn: sa.Connection, now: datetime, ask: Ask) -> dict[Lane, str]:
        shut = breakers.shut_lanes(conn, now, ask.provider, ask.model)
        closed: dict[Lane, str] = {
            lane: f"the breaker of the {lane} lane is open" for lane in LANES if lane in shut or breakers.ANY in shut
        }
        if self.wish.not_flex:
            closed["flex"] = self.wish.not_flex
        return closed

    def _is_last_call(self, now: datetime) -> bool:
        until = self.asked.until
        return until is not None and now >= last_call(self.room.house.settings.night, until)

    def _returned(self, now: datetime) -> str:
        """Why it is not to join another wave: it came back from one unanswered, in this night, or twice."""
        saved = self.wish.saved
        if saved is None or not saved["again"]:
            return ""
        if saved["batch_id"] is None and saved["error"] != CALLED_BACK:
            return ""
        over, deadline = saved["attempt"] >= _MOST_WAVES, saved["deadline"]
        if self.asked.until is not None:
            over = deadline is None or deadline > now
        return f"it came back from a batch unanswered ({saved['error']})" if over else ""

    def _costs(self, conn: sa.Connection, ask: Ask, sizes: Sizes) -> dict[Lane, float]:
        """Of one call, taken as one of the turns that its task is expected to make."""
        habits = self.room.estimates.habits(conn, self.asked.playbook.name)
        turns = max(habits.turns_to_expect(tools=bool(self.wish.provider.tools(ask))), self.wish.position)
        return {lane: self._cost(ask, sizes, habits, lane, turns) for lane in LANES}

    def _cost(self, ask: Ask, sizes: Sizes, habits: Habits, lane: Lane, turns: float) -> float:
        found = prices.expected(
            ask.provider,
            ask.model,
            lane,
            prefix_tokens=habits.input_to_expect(sizes.prefix),
            hit_share=self._batch_hits(sizes, habits, turns) if lane == "batch" else self._hits(turns, sizes),
            new_input=habits.input_to_expect(sizes.input - sizes.prefix),
            output=round(habits.output_to_expect(sizes.output_limit)),
            ttl=sizes.ttl,
            day=self.room.house.clock.now().date(),
        )
        return float(found or 0)

    def _batch_hits(self, sizes: Sizes, habits: Habits, turns: float) -> float:
        """Which share of calls find their prefix in a cache in a batch. As seen; before that half of what is usual for
        the turns of an agent: they are an hour apart, and find nothing that is kept for minutes but by their wave."""
        usual = self.room.house.settings.model.cache_hits
        prior = usual / 2 if turns > 1 and sizes.ttl != "1h" else usual
        return habits.batch_hits(sizes.prefix / max(sizes.input, 1), prior)

    def _hits(self, turns: float, sizes: Sizes) -> float:
        """The same for live calls. Turns of one task follow each other within minutes, so that only the first misses,
        unless another was just there that began alike."""
        if self.wish.follows or self.room.is_warm(sizes.prefix_key):
            return 1.0
        return 1.0 - 1.0 / max(turns - self.wish.position + 1, 1.0)
