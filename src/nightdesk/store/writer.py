"""Group commit: the waiting writes of many legs become one transaction, so that a disk sync serves them all."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")

_MOST_IN_A_GROUP = 100
_LONGEST_PAUSE = 2.0


@dataclass(slots=True)
class _Write:
    work: Callable[[sa.Connection], Any]
    done: Future[Any] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class GroupWriter:
    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[sa.Connection]],
        is_outage: Callable[[BaseException], bool],
        threads: int,
    ) -> None:
        self._transaction = transaction
        self._is_outage = is_outage
        self._threads = threads
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._started: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pending: dict[int, _Write] = {}

    async def run(self, work: Callable[[sa.Connection], T]) -> T:
        self._start()
        write = _Write(work)
        self._pending[id(write)] = write
        write.done.add_done_callback(lambda _: self._pending.pop(id(write), None))
        self._queue.put(write)
        result: T = await asyncio.wrap_future(write.done)
        return result

    def stalled_for(self) -> float:
        waiting = [write.since for write in list(self._pending.values())]
        return time.monotonic() - min(waiting) if waiting else 0.0

    def close(self) -> None:
        for _ in self._started:
            self._queue.put(None)
        for thread in self._started:
            thread.join(timeout=5)

    def _start(self) -> None:
        if self._started:
            return
        with self._lock:
            if not self._started:
                for number in range(self._threads):
                    thread = threading.Thread(target=self._loop, name=f"store-writer-{number}", daemon=True)
                    thread.start()
                    self._started.append(thread)

    def _loop(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first, *self._waiting()]
            self._commit([write for write in group if write.done.set_running_or_notify_cancel()])

    def _waiting(self) -> list[_Write]:
        found: list[_Write] = []
        while len(found) < _MOST_IN_A_GROUP - 1:
            try:
                write = self._queue.get_nowait()
            except Empty:
                break
            if write is None:  # closing: leave the mark for the loop
                self._queue.put(None)
                break
            found.append(write)
        return found

    def _commit(self, group: list[_Write]) -> None:
        """All in one transaction; if one of several fails, each in its own, so that the others are unharmed."""
        pause = 0.05
        while group:
            try:
                with self._transaction() as conn:
                    results = [write.work(conn) for write in group]
            except BaseException as error:
                if self._is_outage(error):
                    time.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                elif len(group) == 1:
                    group[0].done.set_exception(error)
                    return
                else:
                    for write in group:
                        self._commit([write])
                    return
            else:
                for write, result in zip(group, results, strict=True):
                    write.done.set_result(result)
                return
