"""What stands between an SDK and the network: a request is answered from the journal, or makes its way through it."""

import asyncio
import dataclasses
import json
import time
from collections import Counter
from concurrent.futures import Future
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

from nightdesk.canonical import Json
from nightdesk.errors import AskPerson, Invalid, LegLost
from nightdesk.failpoints import failpoint
from nightdesk.model import calls
from nightdesk.model.admission import Admission
from nightdesk.model.asks import Ask, HttpAnswer, HttpRequest, call_id
from nightdesk.model.calls import Call, to_answer
from nightdesk.model.providers import PROVIDERS, recognise
from nightdesk.model.providers.base import Provider, Uncarried
from nightdesk.model.rest import Rest, step_name
from nightdesk.model.room import ModelRoom
from nightdesk.model.sending import Landing, send
from nightdesk.model.wish import Asked, Diversion, Diverted, Go, Held, Joined, Outcome, Reused, Stopped, Wish
from nightdesk.playbook import Playbook

# Put up by a caller that can ask another provider instead.
diversion: ContextVar[Diversion | None] = ContextVar("nightdesk_diversion", default=None)

# Refused by rate so often in a row, a call waits as a row.
_MOST_TRIES = 8
_JSON = "application/json"
_WOULD_STAND_STILL = (
    "A sync client was used in the leg's own thread, which would stand still for ever. "
    "Use it in a plain function given to desk.step, or use the async client."
)


class Asker:
    """All asking of one leg. Also for clients in threads, while the leg's loop runs."""

    def __init__(self, room: ModelRoom, task: Any, dispatch: int, playbook: Playbook, rest: Rest) -> None:
        self.playbook = playbook
        self._room = room
        self._asked = Asked(task, dispatch, playbook)
        self._rest = rest
        self._occurrences: Counter[tuple[str, str]] = Counter()
        self._before: dict[str, Call] = {}
        self._saved: dict[str, Call] = {}
        self._known: set[str] = set()
        self._position = 0
        self._loading: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._from_threads: set[Future[HttpAnswer]] = set()
        self._closed = False
        # Why the last request was refused, if that was for the provider's policy: only a person can help.
        self.refused = ""

    @property
    def output_limit(self) -> int:
        """The output tokens of a request that states no limit of its own."""
        return self.playbook.asking.tokens or self._room.house.settings.model.output_tokens

    async def ask(self, request: HttpRequest) -> HttpAnswer:
        """The answer as the provider would give it. What cannot be answered now ends the leg."""
        if self._loop is not _running_loop():  # an agent's run_sync, in a step's thread, has a loop of its own
            return await asyncio.to_thread(self.ask_from_thread, request)
        try:
            ask = recognise(request)
        except Uncarried as error:
            return _answered(400, error.answer)
        except Invalid as error:
            return _refusal(400, str(error))
        if ask is None:
            return await self._pass_on(request)
        try:
            return await self._asked_for(ask, request)
        except (Exception, LegLost) as error:
            # Ours, not the provider's: an SDK would take it for a broken connection, and try again.
            return await self._rest.stop(error)

    def ask_from_thread(self, request: HttpRequest) -> HttpAnswer:
        """The same for a sync client, which blocks its thread until the answer is there or the leg is over."""
        if self._loop is _running_loop():
            return _refusal(400, _WOULD_STAND_STILL)
        if self._closed:
            raise LegLost
        future = asyncio.run_coroutine_threadsafe(self.ask(request), self._loop)
        self._from_threads.add(future)
        if self._closed:  # meanwhile, so that nobody else would
            future.cancel()
        try:
            return future.result()
        except BaseException as error:
            raise LegLost from error  # no SDK takes it for a failed request, and tries again
        finally:
            self._from_threads.discard(future)

    async def unasked(self, *, at_end: bool) -> list[str]:
        """Calls that were answered in an earlier leg and not asked for in this one, which has come to rest or to its
        end. Those in steps do not count: a step that is done is not run again. A leg that rests before it has asked
        for anything new may be on its way to them."""
        if self._asked.dispatch > 1:
            await self._load()
        if not at_end and self._known <= self._before.keys():
            return []
        answered = {call for call, row in self._before.items() if row["status"] == "done" and not row["step"]}
        return sorted(answered - self._known)

    def spent_in(self, step: str, occurrence: int) -> dict[str, Any]:
        """What the calls in this step cost, for its row in `runs`."""
        rows = [row for row in self._saved.values() if row["step"] == step_name(step, occurrence)]
        tools = sorted({tool for row in rows for tool in row["tools"] or ()})
        return {
            "model": ", ".join(sorted({row["model"] for row in rows})) or None,
            "tools": tools or None,
            "cost_usd": sum((row["cost_usd"] for row in rows), Decimal(0)),
        }

    def close(self) -> None:
        """The leg is over: threads that still wait for an answer get none."""
        self._closed = True
        for future in list(self._from_threads):
            future.cancel()

    async def _asked_for(self, ask: Ask, request: HttpRequest) -> HttpAnswer:
        wish = await self._wish(ask, request)
        for _ in range(_MOST_TRIES):
            answer = await self._try(wish, request)
            if isinstance(answer, HttpAnswer):
                return answer
            wish = answer
        return await self._rest.wait("limit", self._room.soon(), why="a rate limit is reached again and again")

    async def _try(self, wish: Wish, request: HttpRequest) -> HttpAnswer | Wish:
        """One way through: an answer, or the wish as it is to be tried again."""
        saved = wish.saved
        if saved is not None and not saved["again"]:
            if saved["status"] in ("done", "failed"):
                return self._answer(wish, saved)
            if saved["status"] == "lost":
                return await self._rest.stop(AskPerson(saved["error"]))
            if saved["status"] == "diverted":
                return self._turn_away(wish, saved["model"])
            if saved["status"] in ("wanted", "sent"):
                return await self._rest.wait("batch", call=wish.id, why="waits for its wave")
        with self._rest.busy():
            outcome = await self._room.house.db.commit(Admission(self._room, self._asked, wish))
            if isinstance(outcome, Go):
                return await self._go(wish, outcome, request)
        return await self._follow(wish, outcome)

    async def _follow(self, wish: Wish, outcome: Outcome) -> HttpAnswer:
        match outcome:
            case Reused(call):
                return self._answer(wish, call)
            case Diverted(to):
                return self._turn_away(wish, to)
            case Joined():
                return await self._rest.wait("batch", call=wish.id, why="waits for its wave")
            case Held(kind, why, until):
                return await self._rest.wait(kind, until, why=why)
            case Stopped(error):
                return await self._rest.stop(error)
        raise AssertionError(outcome)

    async def _go(self, wish: Wish, go: Go, request: HttpRequest) -> HttpAnswer | Wish:
        if go.delay:
            await self._room.house.clock.sleep(go.delay)
        failpoint("call-sending", wish.provider.name)
        began = time.monotonic()
        sent = await send(self._room, wish.provider, go, request)
        failpoint("call-answered", wish.provider.name)
        seconds = time.monotonic() - began
        self._room.answered(go.call, seconds, go.prefix_key)
        slow = self._room.is_slow(go.call)
        landing = Landing(self._room, wish.provider, go, sent, self._asked.task["tenant"], seconds, slow=slow)
        row = await self._room.house.db.commit(landing)
        failpoint("call-landed", wish.provider.name)
        if row["status"] == "done":
            self._room.learn_shape(row["shape"])
        if landing.has_no_flex:
            return _again(wish, row, f"the flex lane answered HTTP {sent.verdict.status}")
        return _again(wish, row) if landing.asks_again else self._answer(wish, row)

    def _answer(self, wish: Wish, call: Call) -> HttpAnswer:
        self._saved[wish.id] = call
        if (waiting := diversion.get()) is not None:
            waiting.lane = call["lane"]
        ask, body = wish.ask, call["response"]
        self.refused = ""
        if 200 <= call["http_status"] < 300:
            body = wish.provider.completed(ask, body)
            if ask.streamed:
                return to_answer(call, wish.provider.stream(ask, body), "text/event-stream")
        elif wish.provider.trouble(call["http_status"], body) == "policy":
            self.refused = call["error"] or "no reason was given"
        return to_answer(call, json.dumps(body).encode(), _JSON)

    def _turn_away(self, wish: Wish, to: str) -> HttpAnswer:
        """The caller that put up the diversion asks the other model; nobody else comes here."""
        waiting = diversion.get()
        if waiting is not None:
            waiting.to = to
        return _refusal(503, f"Diverted to {to}.", wish.provider, wish.ask)

    async def _wish(self, ask: Ask, request: HttpRequest) -> Wish:
        step, provider = self._rest.step(), PROVIDERS[ask.provider]
        await self._load()
        is_retry = request.headers.get("x-stainless-retry-count", "0") != "0"
        self._occurrences[step, ask.hash] += 0 if is_retry and self._occurrences[step, ask.hash] else 1
        occurrence = self._occurrences[step, ask.hash]
        key = call_id(self._asked.task["id"], self._asked.task["version"], step, ask.hash, occurrence)
        saved = self._saved.get(key)
        if key not in self._known:
            self._known.add(key)
            self._position += saved is None
        position = self._position if saved is None else saved["position"]
        credential = self._room.fingerprint(provider, request.headers)
        can_divert, follows = diversion.get() is not None, self._follows(ask)
        return Wish(
            key, provider, ask, credential, step, occurrence, position, saved, can_divert=can_divert, follows=follows
        )

    def _follows(self, ask: Ask) -> bool:
        """Whether the task has asked the same model live within the last minutes."""
        return any(
            row["lane"] != "batch" and row["asked_model"] == ask.model and self._room.is_recent(row["ended_at"])
            for row in self._saved.values()
        )

    async def _load(self) -> None:
        """The task's calls of earlier legs, read when the first is asked for."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(self._read))
        await asyncio.shield(self._loading)

    def _read(self) -> None:
        task = self._asked.task
        with self._room.house.db.read() as conn:
            self._before = calls.of_task(conn, task["id"], task["version"])
        self._saved = dict(self._before)
        self._position = max((row["position"] for row in self._saved.values()), default=0)

    async def _pass_on(self, request: HttpRequest) -> HttpAnswer:
        """Looking things up at a provider costs nothing and goes through; anything else must be an ask."""
        if request.method != "GET" and not request.url.partition("?")[0].endswith(("/count_tokens", ":countTokens")):
            return _refusal(400, f"desk.http_client() carries requests to models, and {request.url} is none.")
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        answer = await self._room.client.request(
            request.method, request.url, headers=headers, content=request.body or None
        )
        return HttpAnswer(
            answer.status_code, answer.content, {"content-type": answer.headers.get("content-type", _JSON)}
        )


def _again(wish: Wish, row: Call, not_flex: str = "") -> Wish:
    return dataclasses.replace(wish, saved=row, not_flex=not_flex or wish.not_flex)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _refusal(status: int, message: str, provider: Provider | None = None, ask: Ask | None = None) -> HttpAnswer:
    body: Json = {"error": {"message": message, "type": "invalid_request_error", "code": "nightdesk"}}
    if provider is not None and ask is not None:
        body = provider.error(ask.endpoint, status, message)
    return _answered(status, body)


def _answered(status: int, body: Json) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(body).encode(), {"content-type": _JSON, "x-should-retry": "false"})
