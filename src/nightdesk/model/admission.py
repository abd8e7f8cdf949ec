"""What becomes of a call that the journal has no answer to, decided in one transaction together with its money."""

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.errors import AskPerson, LegLost, Overrun
from nightdesk.guard import breakers, budgets, rates
from nightdesk.guard.limits import limits_for, wants_of
from nightdesk.guard.purses import Purse, next_day, purses_for
from nightdesk.guard.turns import take_turn
from nightdesk.model import calls, prices
from nightdesk.model.asks import Ask
from nightdesk.model.calls import Verdict
from nightdesk.model.providers import plain_name
from nightdesk.model.room import ModelRoom
from nightdesk.model.router import Route
from nightdesk.model.routing import LIVE_SECONDS, Routing
from nightdesk.model.rows import new_row
from nightdesk.model.shapes import send_ahead
from nightdesk.model.sizes import limited, sizes_of
from nightdesk.model.wish import Asked, Diverted, Go, Held, Joined, Outcome, Reused, Sizes, Stopped, Wish
from nightdesk.store import tasks
from nightdesk.watch.events import record

# From this share of a cap on, the playbook's cheaper model is asked.
_CHEAPER_FROM = 0.8
# A call paced for longer than this waits as a row instead of in memory.
_PATIENCE_SECONDS = 20.0


class Admission:
    """Built once per try of a call, run in a transaction that may have to be repeated."""

    def __init__(self, room: ModelRoom, asked: Asked, wish: Wish) -> None:
        self._room = room
        self._house = room.house
        self._asked = asked
        self._asking = asked.playbook.asking
        self._as_asked = wish
        self._see(wish)

    def _see(self, wish: Wish) -> None:
        self._wish = wish
        self._routing = Routing(self._room, self._asked, wish)

    def __call__(self, conn: sa.Connection) -> Outcome:
        now = self._house.clock.now()
        take_turn(self._house.db, conn)  # before any row is held
        self._hold_task(conn)
        saved = calls.find(conn, self._as_asked.id)
        self._see(dataclasses.replace(self._as_asked, saved=saved))
        settled = self._as_saved(conn, now, saved) if saved else self._too_many_turns() or self._reuse(conn, now)
        if settled is not None:
            return settled
        outcome = self._choose_model(conn, now)
        if isinstance(outcome, Held) and outcome.refusal is not None:
            budgets.note_refusal(conn, now, outcome.refusal)
        return outcome

    def _hold_task(self, conn: sa.Connection) -> None:
        """The writes of a leg that has lost its task are refused."""
        held = sa.select(tasks.c.dispatch).where(tasks.c.id == self._asked.task["id"], tasks.c.state == "working")
        if conn.execute(held.with_for_update(read=True)).scalar() != self._asked.dispatch:
            raise LegLost

    def _too_many_turns(self) -> Stopped | None:
        limit = self._asking.turns or self._house.settings.model.turns
        if self._wish.position <= limit:
            return None
        return Stopped(Overrun(f"The task has asked models {limit} times, which is its limit of turns."))

    def _reuse(self, conn: sa.Connection, now: datetime) -> Reused | None:
        """The answer to the same request of another task of this tenant, if the playbook allows it."""
        if not self._asking.cache:
            return None
        found = calls.same_of_another(conn, self._wish.ask, self._asked.task)
        if found is None:
            return None
        row = self._row(now, self._wish.ask, Route("live", "answered by what the same request was answered before"))
        row |= {name: found[name] for name in ("model", "lane", "http_status", "response")}
        row |= {"status": "done", "reused_from": found["reused_from"] or found["id"], "ended_at": now}
        calls.write(self._house.db, conn, row)
        return Reused(row)

    def _as_saved(self, conn: sa.Connection, now: datetime, saved: calls.Call) -> Outcome | None:
        """What the row says by now, which is more than the leg knows if this transaction was committed before."""
        match saved["status"]:
            case "wanted" | "sent":
                return Joined()
            case "done":
                return Reused(saved)
            case "diverted":
                return Diverted(saved["model"])
            case "sending":
                self._see(dataclasses.replace(self._as_asked, saved=self._unsent(conn, now, saved)))
        return None

    def _unsent(self, conn: sa.Connection, now: datetime, saved: calls.Call) -> calls.Call:
        """A live request was under way when its worker died: it may be billed, so what it may have cost is spent. One
        that this leg did not find there is its own, from a run of this transaction that was committed after all."""
        known = self._as_asked.saved
        is_lost = known is not None and (known["status"], known["attempt"]) == ("sending", saved["attempt"])
        if is_lost:
            cause = "a live request was lost with its worker; its worst case counts as spent, and it is sent again"
            detail = {"call": saved["id"]}
            record(conn, now, "call", cause=cause, actor="worker", task_id=saved["task_id"], detail=detail)
        verdict = Verdict(502, None, "It was lost with its worker." if is_lost else "It was not sent.", is_lost)
        return dict(saved) | calls.finish(self._house.db, conn, now, saved, verdict, again=True)

    def _choose_model(self, conn: sa.Connection, now: datetime) -> Outcome:
        """The playbook's cheaper model once a cap is nearly used, its fallback while a breaker is open."""
        ask, asking, purses = self._wish.ask, self._asking, self._purses(now)
        if not self._is_main(ask):
            return self._send(conn, now, ask, purses)
        if asking.cheaper and budgets.use(conn, purses) >= _CHEAPER_FROM:
            return self._send_to(conn, now, asking.cheaper, purses, "a cap is used to 80 %")
        outcome = self._send(conn, now, ask, purses)
        match outcome:
            case Held("breaker", why) if asking.fallback:
                return self._send_to(conn, now, asking.fallback, purses, why)
            case Held("budget") if asking.cheaper:
                return self._send_to(conn, now, asking.cheaper, purses, "too little is left under a cap")
        return outcome

    def _is_main(self, ask: Ask) -> bool:
        """Whether it asks the playbook's own model: another was chosen by the code, which keeps its choice."""
        return plain_name(self._asking.use or "") == f"{ask.provider}:{ask.model}"

    def _send_to(self, conn: sa.Connection, now: datetime, model: str, purses: list[Purse], why: str) -> Outcome:
        """Ask this model instead. Another provider's speaks another language, which only some callers can change to."""
        provider, _, name = plain_name(model).partition(":")
        if provider == self._wish.ask.provider:
            return self._send(conn, now, self._wish.provider.with_model(self._wish.ask, name), purses, why)
        if not self._wish.can_divert:
            return self._send(conn, now, self._wish.ask, purses)
        row = self._row(now, self._wish.ask, Route("live", f"diverted to {model}: {why}"))
        calls.write(self._house.db, conn, row | {"status": "diverted", "model": model, "ended_at": now})
        return Diverted(model)

    def _purses(self, now: datetime) -> list[Purse]:
        task = self._asked.task
        return purses_for(
            self._house.settings,
            playbook=self._asked.playbook.name,
            task_cap=self._asking.task_cap,
            day_cap=self._asking.day_cap,
            tenant=task["tenant"],
            task_id=task["id"],
            at=now,
            night=self._asked.until is not None,
        )

    def _send(self, conn: sa.Connection, now: datetime, ask: Ask, purses: list[Purse], why: str = "") -> Outcome:
        left = self._routing.seconds_left(now)
        if left is not None and left < LIVE_SECONDS:
            return Held("time", "too little of the night is left; it waits for the next")
        sizes = sizes_of(self._wish.provider, ask, self._asking, self._house.settings.model)
        route = self._routing.route(conn, now, ask, sizes)
        verdict = breakers.look(conn, now, ask.provider, ask.model, route.lane)
        if not verdict.allowed:
            return Held("breaker", verdict.why, verdict.until)
        if why:
            route = Route(route.lane, f"{route.reason}; instead of {self._wish.ask.model}, for {why}")
        return self._pay(conn, now, limited(self._wish.provider, ask, sizes), sizes, route, purses)

    def _pay(
        self, conn: sa.Connection, now: datetime, ask: Ask, sizes: Sizes, route: Route, purses: list[Purse]
    ) -> Outcome:
        micros = self._worst_case(now, ask, sizes, route)
        if micros is None:
            return Stopped(AskPerson(_no_price(ask)))
        refusal = budgets.reserve(self._house.db, conn, now, purses, micros)
        if refusal is not None:
            return Held("budget", refusal.sentence, self._renewed(refusal.purse, now), refusal)
        row = self._row(now, ask, route) | {
            "shape": sizes.shape,
            "input_estimate": sizes.input,
            "reserved_micros": micros,
            "budgets": [purse.key for purse in purses],
        }
        if route.lane == "batch":
            calls.write(self._house.db, conn, row)
            return Joined()
        return self._pace(conn, now, ask, sizes, row)

    def _renewed(self, purse: Purse, now: datetime) -> datetime | None:
        """When there is a new budget of this kind; a task has one for ever."""
        if purse.scope == "night":
            return self._asked.until
        return next_day(self._house.settings, now) if purse.day else None

    def _worst_case(self, now: datetime, ask: Ask, sizes: Sizes, route: Route) -> int | None:
        cost = prices.worst_case(
            ask.provider,
            ask.model,
            sizes.input,
            sizes.output_limit,
            route.lane,
            sizes.input if sizes.ttl else 0,
            day=now.date(),
            tier=str(ask.body.get("service_tier") or ""),
            media=sizes.media,
            searches=sizes.searches,
        )
        known = self._asking.call_ceiling if cost is None else cost
        return None if known is None else prices.micros(known)

    def _pace(self, conn: sa.Connection, now: datetime, ask: Ask, sizes: Sizes, row: dict[str, Any]) -> Outcome:
        """The rate limits say when it may be sent. If that is long, the money goes back and the task waits."""
        tenant = self._asked.task["tenant"]
        limits = limits_for(self._house.settings, ask.provider, self._wish.credential, ask.model, tenant)
        wants = wants_of(limits, {"requests": 1, "input_tokens": sizes.input, "output_tokens": sizes.output_limit})
        delay = rates.take(self._house.db, conn, now, wants, patience_seconds=_PATIENCE_SECONDS)
        if isinstance(delay, rates.Later):
            budgets.release(self._house.db, conn, now, row["budgets"], row["reserved_micros"])
            return Held("limit", "a rate limit is reached", now + timedelta(seconds=delay.seconds))
        # The turn is held since `look`: if there is a trial to be had, it is this call's.
        breakers.allow(self._house.db, conn, now, ask.provider, ask.model, row["lane"], self._house.settings.breakers)
        row |= {"status": "sending", "sent_at": now, "attempt": row["attempt"] + 1}
        calls.write(self._house.db, conn, row)
        if not self._room.knows_shape(sizes.shape):
            send_ahead(self._house.db, conn, now, sizes.shape, row["id"])
        return Go(row, ask, sizes.output_limit, delay, sizes.prefix_key)

    def _row(self, now: datetime, ask: Ask, route: Route) -> dict[str, Any]:
        return new_row(self._asked, self._wish, ask, route, now)


def _no_price(ask: Ask) -> str:
    return (
        f"There is no known price for {ask.provider}:{ask.model}, so no cap could hold. "
        "State in the playbook what one call may cost: budget: {call: 0.10}."
    )
