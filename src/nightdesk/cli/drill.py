"""`nightdesk drill`: drills through a real worker prove the house."""

import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from nightdesk.cli.rooms import home_folder, is_chosen, is_house, opened
from nightdesk.cli.terminal import JsonOption, actor, note, progress, say, show_json
from nightdesk.errors import NightdeskError

if TYPE_CHECKING:
    from nightdesk.cli.supervise import Child
    from nightdesk.house import House

_ENDS = ("done", "review", "dead", "expired", "cancelled", "rejected")
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
_asked_to_end = threading.Event()


@dataclass(frozen=True)
class Summary:
    count: int
    done: int
    review: int
    dead: int
    steps: int
    seconds: float
    tasks_per_second: float


def drill(
    count: Annotated[int, typer.Argument(min=1, max=10_000, help="How many drills.")] = 100,
    json: JsonOption = False,
) -> None:
    """Run a hundred drills through a real worker, and sum up."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    with _somewhere() as home, opened(home) as house:
        ids = _submit(house, count)
        started = time.monotonic()
        states = _work(house, home, ids)
        seconds = time.monotonic() - started
        summary = _summed_up(house, ids, states, seconds)
    if json:
        show_json(asdict(summary))
    else:
        say(
            f"{count} drills: {summary.done} done, {summary.review} in review, {summary.dead} dead; "
            f"{summary.steps} steps in {summary.seconds} s, {summary.tasks_per_second} tasks a second."
        )
    if summary.done < count:
        note("Not all of them ended done. See why: nightdesk tasks list, nightdesk dead list")
        raise typer.Exit(1)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    _asked_to_end.set()
    raise KeyboardInterrupt


@contextmanager
def _somewhere() -> Iterator[Path]:
    home = home_folder()
    if is_house(home) or is_chosen():
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="nightdesk-") as folder:
        yield Path(folder)


def _submit(house: "House", count: int) -> list[str]:
    from nightdesk.intake import Submission, submit_in

    evening = house.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")
    with house.db.write() as conn:
        return [
            submit_in(house, conn, Submission("drill", {"name": f"night-{evening}-{number}"}), actor=actor()).id
            for number in range(1, count + 1)
        ]


def _work(house: "House", home: Path, ids: list[str]) -> Mapping[str, int]:
    """Let a worker of our own do them. Returns how many are in which state when all have ended."""
    from nightdesk.cli.supervise import Child, nightdesk, stop

    environment = {**os.environ, "NIGHTDESK_HOME": str(home), "NIGHTDESK_LOG_LEVEL": "WARNING"}
    worker = Child("worker", nightdesk("worker"), environment=environment)
    try:
        with progress("drills", len(ids)) as advance:
            return _watch(house, worker, ids, advance)
    finally:
        stop([worker])


def _watch(house: "House", worker: "Child", ids: list[str], advance: Callable[[int], None]) -> Mapping[str, int]:
    ended, changed = 0, time.monotonic()
    while True:
        if _asked_to_end.is_set():  # an exception that is raised while a library cleans up is lost
            raise KeyboardInterrupt
        worker.tend()
        states = _count(house, ids)
        now_ended = sum(states[state] for state in _ENDS)
        if now_ended > ended:
            ended, changed = now_ended, time.monotonic()
            advance(ended)
        if ended == len(ids):
            return states
        if time.monotonic() - changed > _PATIENCE_SECONDS:
            raise NightdeskError(f"For {_PATIENCE_SECONDS:.0f} s no drill has ended.", "Run: nightdesk doctor")
        time.sleep(_LOOK_SECONDS)


def _count(house: "House", ids: list[str]) -> Counter[str]:
    import sqlalchemy as sa

    from nightdesk.store import tasks

    query = sa.select(tasks.c.state, sa.func.count()).where(tasks.c.id.in_(ids)).group_by(tasks.c.state)
    with house.db.read() as conn:
        return Counter({row[0]: row[1] for row in conn.execute(query)})


def _summed_up(house: "House", ids: list[str], states: Mapping[str, int], seconds: float) -> Summary:
    import sqlalchemy as sa

    from nightdesk.store import runs

    query = sa.select(sa.func.count()).where(runs.c.task_id.in_(ids), runs.c.status == "done")
    with house.db.read() as conn:
        steps = conn.execute(query).scalar_one()
    return Summary(
        count=len(ids),
        done=states["done"],
        review=states["review"],
        dead=states["dead"],
        steps=steps,
        seconds=round(seconds, 2),
        tasks_per_second=round(len(ids) / seconds, 1),
    )
