"""The task's handle, given to every playbook: its steps, its waits, its keys."""

import asyncio
import functools
import inspect
import time
import typing
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pydantic import TypeAdapter

from nightdesk.canonical import Json, digest, jsonable
from nightdesk.clock import Clock
from nightdesk.errors import GiveUp
from nightdesk.model.asker import Asker
from nightdesk.model.transport import http_client
from nightdesk.watch.logs import get_logger
from nightdesk.work.context import StepInfo, step_in_progress
from nightdesk.work.joining import JOIN, Children, Missing, Result, read_results
from nightdesk.work.journal import Entry, Journal
from nightdesk.work.pause import Pause
from nightdesk.work.sent_back import SentBack

if TYPE_CHECKING:
    import httpx
    import httpx2
    from pydantic_ai.models import Model

T = TypeVar("T")


class Desk:
    """What a playbook's function needs to be durable, and nothing else."""

    def __init__(
        self,
        task: Any,
        journal: Journal,
        pause: Pause,
        asker: Asker,
        clock: Clock,
        deadline: datetime,
        children: Children,
        sent_back: SentBack | None = None,
    ) -> None:
        self.task_id: str = task["id"]
        self.tenant: str = task["tenant"]
        self.version: int = task["version"]
        self.deadline = deadline
        # What a person said of the last draft; None in a first version.
        self.sent_back = sent_back
        self.log = get_logger("nightdesk.playbook").bind(job_id=self.task_id)
        self._journal = journal
        self._pause = pause
        self._asker = asker
        self._clock = clock
        self._children = children

    @property
    def instructions(self) -> str:
        """What the playbook states for its model, for code that asks one by itself."""
        return str(self._asker.playbook.definition.get("instructions") or "")

    @overload
    async def step(self, name: str, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T: ...

    @overload
    async def step(self, name: str, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...

    async def step(self, name: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run `fn(*args, **kwargs)` and save what it returns; a step that is complete is never run again.

        Arguments and the returned value travel as JSON. The value comes back as `fn`'s return annotation
        says, on the first run as on a replay. A plain function runs in a thread.
        """
        await self._pause.checkpoint()
        entry = await self._journal.enter(name, {"args": args, "kwargs": kwargs} if args or kwargs else None)
        if entry.saved is not None and entry.is_done:
            await asyncio.sleep(0)  # let concurrent steps be asked for in the order of the first run
            output = entry.saved["output"]
        else:
            with self._pause.busy():
                output = await self._run(entry, functools.partial(fn, *args, **kwargs))
        return _read(fn, output)

    async def ask(
        self,
        question: str,
        choices: Sequence[str],
        *,
        timeout: timedelta | float | None = None,
        default: str | None = None,
        name: str = "ask",
    ) -> str:
        """Park until a person has chosen, or until the timeout, which answers with the default."""
        if not choices or (timeout is not None and default not in choices):
            raise ValueError("desk.ask needs choices, and a default among them when it has a timeout.")
        until = None if timeout is None else self._clock.now() + _as_delta(timeout)
        asked = {"question": question, "choices": list(choices)}
        return str(await self._wait("person", name, asked, until, default))

    async def sleep_until(self, moment: datetime, *, name: str = "sleep") -> None:
        """Park until the moment. The moment of the first run stands, whatever a replay computes."""
        await self._wait("time", name, None, moment, None)

    async def emit(self, playbook: str, input: Any, *, key: str | None = None) -> str:
        """Hand in a task for a playbook; the answer is its id, the same in every attempt.

        Without a key the task is known by its place among those that this one emits. What nightly work emits is worked
        on in the same night.
        """
        return await self.step("emit", self._children.emit, playbook, jsonable(input), key)

    async def results(
        self, ids: Sequence[str], *, timeout: timedelta | float | None = None, missing: Missing = "fail"
    ) -> list[Result | None]:
        """Park until all these emitted tasks have come to something, or until the timeout; what came of each, in order.

        A draft that is on the desk, and passed its gates, counts. Where there is nothing, `fail` gives up, `cached`
        takes the last good result of the same playbook and key, and `without` gives None.
        """
        await self._pause.checkpoint()
        until = None if timeout is None else self._clock.now() + _as_delta(timeout)
        terms = {"until": until.isoformat() if until else None}
        entry = await self._journal.enter(JOIN, {"tasks": list(ids), "missing": missing}, terms=terms)
        if entry.saved is not None and entry.is_done:
            return read_results(entry.saved["output"])
        stored = await self._journal.wait(entry)
        due = datetime.fromisoformat(stored["until"]) if stored["until"] else None
        settled = await self._children.are_settled(ids)
        if not settled and (due is None or due > self._clock.now()):
            await self._pause.wait("tasks", due, why="it waits for tasks that it emitted")
        await self._journal.start(entry)
        try:
            found = await self._children.results(ids, missing)
        except GiveUp as error:
            await self._journal.fail(entry, error)
            raise
        return read_results(await self._journal.complete(entry, found))

    @overload
    def http_client(self) -> "httpx2.AsyncClient": ...

    @overload
    def http_client(self, *, sync: Literal[True], library: Literal["httpx2"] = ...) -> "httpx2.Client": ...

    @overload
    def http_client(self, *, sync: Literal[False] = ..., library: Literal["httpx"]) -> "httpx.AsyncClient": ...

    @overload
    def http_client(self, *, sync: Literal[True], library: Literal["httpx"]) -> "httpx.Client": ...

    def http_client(self, *, sync: bool = False, library: str = "httpx2") -> Any:
        """The HTTP client to give to a provider's SDK: what is asked through it is journaled, and never paid twice.

        A sync client is for functions in threads: a plain function given to `step`, or `asyncio.to_thread`.
        """
        return http_client(self._asker, sync=sync, library=library)

    def model(self, name: str | None = None) -> "Model":
        """A model for Pydantic AI, as `provider:name`; without a name, the playbook's own."""
        from nightdesk.model.agents import agent_model

        return agent_model(self._asker, name)

    def tool(self, fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function as a tool for an agent: each call of it is a step, so that a replay gives the same results."""

        @functools.wraps(fn)
        async def journaled(*args: Any, **kwargs: Any) -> Any:
            return await self.step(fn.__name__, fn, *args, **kwargs)

        return journaled

    def key(self, *parts: str) -> str:
        """The idempotency key for a write outside: the same in every attempt, another in every version."""
        return digest(self.task_id, str(self.version), *parts)[:32]

    async def _wait(self, kind: str, name: str, asked: Json, until: datetime | None, at_last: Json) -> Json:
        """Wait for something from outside in a row of the journal; when the time comes, answer with `at_last`."""
        terms = {"until": until.isoformat() if until else None, "default": at_last}
        entry = await self._journal.enter(name, asked, terms=terms)
        if entry.saved is not None and entry.is_done:
            return entry.saved["output"]
        stored = await self._journal.wait(entry)
        due = datetime.fromisoformat(stored["until"]) if stored["until"] else None
        if due is None or due > self._clock.now():
            await self._pause.wait(kind, due)
        await self._journal.start(entry)
        return await self._journal.complete(entry, stored["default"])

    async def _run(self, entry: Entry, call: Callable[[], Any]) -> Json:
        attempt = await self._journal.start(entry)
        mark = step_in_progress.set(StepInfo(entry.step, entry.occurrence, attempt))
        log = self.log.bind(step=entry.step, attempt=attempt)
        began = time.monotonic()
        try:
            value = await _call(call)
        except Exception as error:
            await self._journal.fail(entry, error, self._asker.spent_in(entry.step, entry.occurrence))
            log.warning("A step failed.", action="step", status="failed", duration_ms=_since(began), error=str(error))
            raise
        finally:
            step_in_progress.reset(mark)
        output = await self._journal.complete(entry, value, self._asker.spent_in(entry.step, entry.occurrence))
        log.info("A step is done.", action="step", status="done", duration_ms=_since(began))
        return output


async def _call(call: Callable[[], Any]) -> Any:
    """Await a coroutine function; run a plain one in a thread, where it may block."""
    if inspect.iscoroutinefunction(call):
        return await call()
    value = await asyncio.to_thread(call)
    return await value if inspect.isawaitable(value) else value


def _read(fn: Callable[..., Any], output: Json) -> Any:
    """The output as the function's return annotation has it; without one, as plain JSON."""
    adapter = _adapter(getattr(fn, "__func__", fn))
    return adapter.validate_python(output) if adapter else output


@functools.lru_cache(maxsize=1024)
def _adapter(fn: Callable[..., Any]) -> TypeAdapter[Any] | None:
    try:
        hint = typing.get_type_hints(fn).get("return", Any)
    except (NameError, TypeError):  # an annotation that means nothing here, or no annotations at all
        return None
    return None if hint in (Any, type(None)) or isinstance(hint, TypeVar) else TypeAdapter(hint)


def _as_delta(timeout: timedelta | float) -> timedelta:
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
