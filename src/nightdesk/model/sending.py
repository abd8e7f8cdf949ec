"""One live or flex request on its way: sent, answered or not, written down, with what it teaches of limits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import sqlalchemy as sa

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import LegLost
from nightdesk.guard import breakers, rates
from nightdesk.guard.limits import Address, Dimension, limits_for, wants_of
from nightdesk.guard.turns import take_turn
from nightdesk.model import calls, shapes
from nightdesk.model.asks import HttpRequest
from nightdesk.model.calls import Verdict
from nightdesk.model.providers.base import Provider, Trouble
from nightdesk.model.providers.headers import retry_after
from nightdesk.model.room import ModelRoom
from nightdesk.model.wish import Go
from nightdesk.store import tasks

# Said by one connection about itself; the rest of the SDK's headers, its key included, go along as they are.
_OF_THE_CONNECTION = {
    "host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding", "content-type",
}  # fmt: skip
_RATE_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What came back, with the headers; `trouble` says what a failure means for those that come after."""

    verdict: Verdict
    headers: Mapping[str, str]
    trouble: Trouble | None = None


async def send(room: ModelRoom, provider: Provider, go: Go, request: HttpRequest) -> Sent:
    """Send it now. Never raises for what the other side does."""
    ask, flex = go.ask, go.call["lane"] == "flex"
    body = provider.flexed(ask.body) if flex else ask.body
    headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_CONNECTION}
    headers["content-type"] = "application/json"
    settings = room.house.settings.model
    seconds = settings.flex_minutes * 60 if flex else settings.timeout_seconds
    timeout = httpx2.Timeout(seconds, connect=10.0)
    try:
        answer = await room.client.post(
            ask.base_url + ask.path, content=json.dumps(body).encode(), headers=headers, timeout=timeout
        )
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        return _broken(provider, go, 503, f"The provider cannot be reached: {str(error) or type(error).__name__}")
    except httpx2.TimeoutException:
        return _broken(provider, go, 504, f"No answer within {seconds:.0f} seconds.", billed=True)
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        return _broken(provider, go, 502, f"The connection broke: {str(error) or type(error).__name__}", billed=True)
    return _read(provider, go, answer)


def _broken(provider: Provider, go: Go, status: int, why: str, *, billed: bool = False) -> Sent:
    body = provider.error(go.ask.endpoint, status, why)
    return Sent(Verdict(status, body, why, may_be_billed=billed), {}, "overload")


def _read(provider: Provider, go: Go, answer: httpx2.Response) -> Sent:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    try:
        body: Json = jsonable(answer.json())
    except ValueError:
        body = None
    if answer.is_success:
        if not isinstance(body, dict):
            return _broken(provider, go, 502, "The answer was cut off, or is no JSON.", billed=True)
        return Sent(Verdict(answer.status_code, body), headers)
    if not isinstance(body, dict):
        body = provider.error(go.ask.endpoint, answer.status_code, answer.text[:500] or answer.reason_phrase)
    why = f"HTTP {answer.status_code}: {json.dumps(body)[:500]}"
    return Sent(Verdict(answer.status_code, body, why), headers, provider.trouble(answer.status_code, body))


class Landing:
    """Writes what came of a request, in a transaction that may have to be repeated. The answer is the call's row."""

    def __init__(
        self, room: ModelRoom, provider: Provider, go: Go, sent: Sent, tenant: str, seconds: float, *, slow: bool
    ) -> None:
        self._room = room
        self._db = room.house.db
        self._provider = provider
        self._go = go
        self._sent = sent
        self._tenant = tenant
        self._seconds = seconds if go.call["lane"] == "live" else 0.0  # flex is given its time
        self._slow = slow

    @property
    def asks_again(self) -> bool:
        """Whether the same call is to be admitted anew, for nothing is wrong with it."""
        return self._sent.trouble in ("rate", "credentials", "spend") or self.has_no_flex

    @property
    def has_no_flex(self) -> bool:
        """Whether it may be answered live: the flex lane had no room, or does not take such requests."""
        return self._go.call["lane"] == "flex" and self._sent.trouble in ("rate", "overload", "invalid")

    def __call__(self, conn: sa.Connection) -> calls.Call:
        now = self._room.house.clock.now()
        call, verdict = self._go.call, self._sent.verdict
        take_turn(self._db, conn)  # before any row is held
        row = calls.find(conn, call["id"])
        if row is None or row["attempt"] != call["attempt"]:
            raise LegLost  # another leg has counted this request as lost, and sent its own
        if row["status"] != "sending":
            return row  # it is written already
        columns = calls.finish(self._db, conn, now, call, verdict, again=self.asks_again)
        if verdict.is_answer:  # progress, as a completed step is
            conn.execute(tasks.update().where(tasks.c.id == call["task_id"], tasks.c.strikes > 1), {"strikes": 1})
        self._tell_breaker(conn, now)
        if not self._room.knows_shape(call["shape"]):
            refused = self._sent.trouble == "invalid" and not self.has_no_flex
            shapes.came_back(conn, now, call["shape"], call["id"], good=verdict.is_answer, refused=refused)
        self._tell_buckets(conn, now, columns)
        return dict(call) | columns

    def _tell_breaker(self, conn: sa.Connection, now: datetime) -> None:
        call, why = self._go.call, self._sent.verdict.error or ""
        at = (self._db, conn, now, call["provider"], call["model"], call["lane"])
        rules = self._room.house.settings.breakers
        match self._sent.trouble:
            case None if self._slow:
                slow = f"one answer in twenty took longer than {rules.slow_seconds:.0f} s"
                breakers.open_for_slowness(*at, why=slow, rules=rules)
            case None | "invalid" | "policy" | "rate":  # it answers; of rates the buckets take care
                breakers.succeeded(*at, rules, sent_at=call["sent_at"], seconds=self._seconds)
            case "credentials" | "spend":
                self._latch(conn, now, why)
            case "overload":
                breakers.failed(*at, why, rules, sent_at=call["sent_at"])

    def _latch(self, conn: sa.Connection, now: datetime, why: str) -> None:
        """A key or an account that is refused is so for every model and lane; a 403 may be for the one model alone."""
        call = self._go.call
        model = call["model"] if self._sent.verdict.status == 403 else breakers.ANY
        breakers.latch(self._db, conn, now, call["provider"], model, breakers.ANY, why)

    def _tell_buckets(self, conn: sa.Connection, now: datetime, columns: Mapping[str, Any]) -> None:
        """What was taken on estimate is corrected; what the provider says of its limits is believed."""
        call, house = self._go.call, self._room.house
        if self._sent.trouble == "rate" and call["lane"] == "live":
            pause = retry_after(self._sent.headers, now, self._sent.verdict.body) or _RATE_PAUSE_SECONDS
            rates.block(self._db, conn, now, self._address("requests"), pause)
        limits = limits_for(house.settings, call["provider"], call["credential"], call["model"], self._tenant)
        dimensions: tuple[Dimension, ...] = ("input_tokens", "output_tokens")
        used: dict[Dimension, float] = {name: columns.get(name) or 0 for name in dimensions}
        taken: dict[Dimension, float] = {"input_tokens": call["input_estimate"], "output_tokens": self._go.output_limit}
        differences = {
            want.address: used[want.address.dimension] - taken[want.address.dimension]
            for want in wants_of(limits, taken)
        }
        rates.correct(self._db, conn, differences)
        for told in self._provider.learned(self._sent.headers, now):
            rates.learn(self._db, conn, now, self._address(told.dimension), told.limit, told.remaining, told.resets_in)

    def _address(self, dimension: Any) -> Address:
        call = self._go.call
        return Address(call["provider"], call["credential"], call["model"], "*", dimension)
