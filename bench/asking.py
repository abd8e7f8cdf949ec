"""What asking models costs: the time of the transport, of a wave, and of a night that is bounded by a rate limit."""

import asyncio
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import sqlalchemy as sa

from bench.figures import Figure, at_most
from bench.place import Place, Scene, Sizes, Tell, patiently
from bench.wave import fill_wave
from nightdesk.model.collecting import Collecting
from nightdesk.model.posting import Posting
from nightdesk.model.room import ModelRoom
from nightdesk.model.simulator import environment
from nightdesk.model.waves import form_waves
from nightdesk.store import batches, calls, events, tasks
from nightdesk.work.queue import wake_those_waiting

_PER_SECOND = 100
_MEGABYTE = 1024 * 1024
_PLAYBOOKS = """
import os, time
import httpx2
from nightdesk import playbook

async def ask(http, text):
    asked = {"model": "claude-haiku-4-5", "max_tokens": 60, "messages": [{"role": "user", "content": text}]}
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    answer = await http.post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json=asked, headers=headers)
    answer.raise_for_status()
    return answer.json()["content"][0]["text"]

async def one_call(order, desk):
    async with desk.http_client() as http:
        return {"text": await ask(http, f"Write about {order.name}.")}

common = {"input": {"name": "string"}, "key": "{name}", "when": "now", "risk": "internal"}
playbook("live-call", lane="live", **common)(one_call)
playbook("batch-call", lane="batch", **common)(one_call)

@playbook("many-calls", lane="live", limits={"turns": 10_000}, **common)
async def many_calls(order, desk):
    count = int(order.name.partition("-")[0])
    async with desk.http_client() as http:
        ours = await timed(http, count)
    async with httpx2.AsyncClient() as http:
        plain = await timed(http, count)
    first = await desk.step("first", lambda: {"ours": ours, "plain": plain})
    await desk.ask("Again?", ["yes"])
    return {**first, "replayed": ours}

async def timed(http, count):
    took = []
    for number in range(count):
        began = time.perf_counter()
        await ask(http, f"Question {number}")
        took.append(time.perf_counter() - began)
    return sorted(took)[count // 2] * 1000
"""


def limited(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """One-call tasks, all live, by two workers, against providers that answer a hundred requests a second."""
    count = sizes.one_call
    with _asking(place, "--requests-per-second", str(_PER_SECOND)) as scene:
        scene.add(count, "live-call")
        tell(f"{count:,} one-call tasks at {_PER_SECOND} a second")
        for _ in range(2):
            scene.worker()
        scene.wait_for(count, tasks.c.state == "done", seconds=600)
        begun = sa.select(sa.func.min(events.c.at)).where(events.c.state == "working")
        with scene.house.db.read() as conn:
            took = (
                conn.execute(sa.select(sa.func.max(tasks.c.ended_at))).scalar_one() - conn.execute(begun).scalar_one()
            )
    ratio = took.total_seconds() / (count / _PER_SECOND)
    return [Figure(f"{count:,} one-call tasks at 100 requests/s: time over the bound", ratio, at_most(1.05))]


def transport(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """The same requests through the transport and without it, from the same code in the same worker."""
    rounds = []
    with _asking(place) as scene:
        scene.worker()
        for number in range(sizes.rounds):
            tell(f"live calls with and without the transport, round {number + 1} of {sizes.rounds}")
            rounds.append(_one_round(scene, f"{sizes.live_calls}-{number}"))
    own = statistics.median(took["ours"] - took["plain"] for took in rounds)
    replay = statistics.median(took["replayed"] for took in rounds)
    return [
        Figure("ms of the transport's own per live call", own, at_most(3)),
        Figure("ms to replay a finished call", replay, at_most(1)),
    ]


def wave(place: Place, sizes: Sizes, tell: Tell) -> list[Figure]:
    """A wave assembled, sent, read and stored, in this process; the simulator is another."""
    count = sizes.wave
    with _asking(place, "--batch-seconds", "1") as scene:
        tell(f"a wave of {count:,} calls")
        fill_wave(scene, count)
        room = ModelRoom(scene.house)
        with _peak() as grown:
            began = time.monotonic()
            waited = _carry(scene, room, count)
            took = time.monotonic() - began - waited
        asyncio.run(room.close())
    return [
        Figure(f"seconds for a wave of {count:,} calls", took, at_most(60)),
        Figure("· MB by which memory grows for it", grown() / _MEGABYTE, at_most(200)),
    ]


def _one_round(scene: Scene, name: str) -> dict[str, float]:
    from nightdesk.work.tasks import answer

    scene.add(1, "many-calls", prefix=f"{name}-")
    waiting = sa.select(tasks.c.id).where(tasks.c.waiting_for == "person")
    patiently(lambda: scene.count(tasks.c.waiting_for == "person") == 1, 300, "the calls to be made")
    with scene.house.db.read() as conn:
        task_id = conn.execute(waiting).scalar_one()
    answer(scene.house, task_id, "yes", actor="bench")
    patiently(lambda: scene.count((tasks.c.id == task_id) & (tasks.c.state == "done")) == 1, 60, "the replay")
    with scene.house.db.read() as conn:
        found: dict[str, float] = conn.execute(sa.select(tasks.c.result).where(tasks.c.id == task_id)).scalar_one()
    return found


def _carry(scene: Scene, room: ModelRoom, count: int) -> float:
    """Until all results are stored; the answer is how long nothing was to be done but wait for the provider."""
    house, waited = scene.house, 0.0

    def wake(conn: sa.Connection, task_ids: object) -> None:
        wake_those_waiting(house, conn, task_ids)  # type: ignore[arg-type]

    posting, collecting = Posting(room, "bench", wake), Collecting(room, "bench", wake)
    while _done(scene) <= count:
        moved = form_waves(room, wake) + posting.post_due()
        with house.db.write() as conn:  # the next poll is due at once
            conn.execute(batches.update().where(batches.c.ended_at.is_(None)), {"next_at": house.clock.now()})
        before = _done(scene)
        collecting.collect_due()
        if not moved and _done(scene) == before:
            time.sleep(0.1)
            waited += 0.1
    return waited


def _done(scene: Scene) -> int:
    with scene.house.db.read() as conn:
        return int(conn.execute(sa.select(sa.func.count()).where(calls.c.status == "done")).scalar_one())


@contextmanager
def _peak() -> Iterator[Callable[[], int]]:
    """By how many bytes this process was larger, at its largest, than at the beginning."""
    process, over = psutil.Process(), threading.Event()
    before = largest = process.memory_info().rss

    def look() -> None:
        nonlocal largest
        while not over.wait(0.05):
            largest = max(largest, process.memory_info().rss)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: largest - before
    finally:
        over.set()
        thread.join()


@contextmanager
def _asking(place: Place, *simulator: str) -> Iterator[Scene]:
    """A house whose providers are a simulator in a process of its own, which answers at once."""
    with place.scene(_PLAYBOOKS) as scene:
        running = scene.processes.start(scene.house.home, "simulator", "--port", "0", "--latency", "0", *simulator)
        scene.environment |= environment(_address(running.log))
        with scene.in_environment():
            yield scene


def _address(log: Path) -> str:
    patiently(lambda: "ANTHROPIC_BASE_URL" in log.read_text(encoding="utf-8"), 30, "the simulator")
    found = re.search(r"ANTHROPIC_BASE_URL=(\S+)", log.read_text(encoding="utf-8"))
    assert found
    return found[1]
