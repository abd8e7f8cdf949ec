"""Where a measurement takes place: a fresh house on one kind of database, and real processes in it."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.engine import prepare
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit_in
from nightdesk.store import migrate, open_database, tasks
from nightdesk.watch import audit
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes, Running

_AT_ONCE = 2_000
_LOOK_SECONDS = 0.25
_TEMPLATE = "template_of_a_house"


@dataclass(frozen=True)
class Sizes:
    """How much of everything is measured. These are the full run's."""

    rounds: int = 3
    drain: int = 1_000
    submissions: int = 400
    shallow: int = 1_000
    deep: int = 100_000
    sample: int = 800
    parked: int = 5_000
    idle_seconds: float = 8.0
    events: int = 100_000
    intake_seconds: int = 20
    burst: int = 10_000
    one_call: int = 5_000
    live_calls: int = 200
    wave: int = 10_000
    agents: int = 8
    settle_seconds: float = 3.0
    lease_seconds: int = 15


QUICK = Sizes(
    rounds=1,
    drain=60,
    submissions=30,
    shallow=100,
    deep=500,
    sample=60,
    parked=50,
    idle_seconds=1.0,
    events=2_000,
    intake_seconds=1,
    burst=100,
    one_call=60,
    live_calls=10,
    wave=60,
    agents=1,
    settle_seconds=0.5,
    lease_seconds=3,
)

Tell = Callable[[str], None]


@dataclass
class Scene:
    """A house and the real program at work in it."""

    house: House
    processes: Processes
    environment: dict[str, str] = field(default_factory=dict)

    def worker(self, **settings: object) -> Running:
        """A worker process; settings as NIGHTDESK_… without the prefix, in lower case."""
        env = {f"NIGHTDESK_{name.upper()}": str(value) for name, value in settings.items()}
        return self.processes.start(self.house.home, "worker", env=self.environment | env)

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """This process too has the scene's environment."""
        with patch.dict(os.environ, self.environment):
            yield

    def add(self, count: int, playbook: str = "drill", prefix: str = "n", **input: Json) -> None:
        """Submit so many tasks, many to a transaction."""
        names = [f"{prefix}{number}" for number in range(count)]
        for start in range(0, count, _AT_ONCE):
            with self.house.db.write() as conn:
                for name in names[start : start + _AT_ONCE]:
                    submit_in(self.house, conn, Submission(playbook, {"name": name, **input}), actor="bench")

    def seal(self) -> None:
        """Chain the events there are, so that a worker's sealer has nothing to catch up with."""
        house = self.house
        while audit.seal(house.db, house.clock, house.home / house.settings.audit.head_file):
            pass

    def count(self, condition: sa.ColumnElement[bool]) -> int:
        with self.house.db.read() as conn:
            return int(conn.execute(sa.select(sa.func.count()).select_from(tasks).where(condition)).scalar_one())

    def wait_for(self, count: int, condition: sa.ColumnElement[bool], seconds: float = 300) -> None:
        patiently(lambda: self.count(condition) >= count, seconds, f"{count} tasks with {condition}")


class Place:
    """One kind of database. Each house, and each database for bare DBOS, is a fresh copy of a migrated one."""

    def __init__(self, name: str, folder: Path, server: PostgresServer | None = None) -> None:
        self.name = name
        self.is_sqlite = server is None
        self._folder = folder
        self._server = server
        self._made = 0
        self._folder.mkdir()
        url = server.create_database(_TEMPLATE) if server else f"sqlite:///{folder / _TEMPLATE}"
        prepare(url)
        database = open_database(url)
        migrate(database)
        database.close()

    def database(self) -> str:
        self._made += 1
        name = f"bench{self._made}"
        if self._server:
            return self._server.create_database(name, template=_TEMPLATE)
        return f"sqlite:///{shutil.copy(self._folder / _TEMPLATE, self._folder / name)}"

    @contextmanager
    def scene(self, playbook: str = "") -> Iterator[Scene]:
        """A house of its own, with one playbook in Python if one is given."""
        url = self.database()
        home = self._folder / f"house{self._made}"
        (home / "playbooks").mkdir(parents=True)
        (home / "nightdesk.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
        if playbook:
            (home / "playbooks" / "own.py").write_text(playbook, encoding="utf-8")
        house = open_house(home)
        processes = Processes(home)
        try:
            yield Scene(house, processes)
        finally:
            processes.close()
            house.close()


def patiently(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Look now and then, so that the looking does not slow down what is measured."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"After {seconds:g} s still waiting for {what}.")
        time.sleep(_LOOK_SECONDS)
