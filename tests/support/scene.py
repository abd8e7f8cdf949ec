"""A house, real processes that work in it, and the drill's log: the scene of every crash test."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.house import House
from nightdesk.intake import Submission, submit_in
from nightdesk.store import runs, tasks
from nightdesk.watch import audit
from nightdesk.work.insight import count_states
from tests.support.processes import Processes, Running, wait_until

Step = tuple[str, str]  # (the drill's name, the number of its step)


@dataclass
class Scene:
    house: House
    processes: Processes
    log: Path
    worker_folder: Path | None = None  # where it is not the house's own: another way to the same database

    def worker(self, **settings: str) -> Running:
        """A worker process; settings as NIGHTDESK_WORKER_… without the prefix, in lower case."""
        env = {f"NIGHTDESK_WORKER_{name.upper()}": value for name, value in settings.items()}
        return self.processes.start(
            self.worker_folder or self.house.home, "worker", env={"NIGHTDESK_DRILL_LOG": str(self.log), **env}
        )

    def add(self, names: Iterable[str], **input: Json) -> list[str]:
        """Submit a drill for each name, in one transaction; the answer is their ids."""
        with self.house.db.write() as conn:
            submissions = [Submission("drill", {"name": name, **input}) for name in names]
            return [submit_in(self.house, conn, submission, actor="test").id for submission in submissions]

    def states(self) -> dict[str, int]:
        return count_states(self.house)

    def wait_for(self, states: dict[str, int], timeout: float) -> None:
        wait_until(lambda: self.states() == states, timeout, f"the tasks are {states}; they are {self.states()}")

    def wait_for_working(self, count: int, timeout: float = 20) -> None:
        wait_until(lambda: self.states().get("working", 0) >= count, timeout, f"{count} tasks are working")

    def begun(self) -> Counter[Step]:
        """How often the body of each step was begun, by the drill's own log."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return Counter((line.split()[0], line.split()[1]) for line in lines)

    def completed(self) -> set[Step]:
        query = sa.select(tasks.c.key, runs.c.step).join(runs, runs.c.task_id == tasks.c.id)
        with self.house.db.read() as conn:
            rows = conn.execute(query.where(runs.c.status == "done")).all()
        return {(row.key, row.step.removeprefix("step-")) for row in rows}

    def wait_for_sealed_chain(self, timeout: float = 20) -> None:
        head = self.house.home / self.house.settings.audit.head_file

        def holds() -> bool:
            verdict = audit.verify(self.house.db, head)
            assert verdict.ok, verdict
            return verdict.unsealed == 0

        wait_until(holds, timeout, "the audit chain is sealed and holds")


def timed(running: Running, timeout: float) -> tuple[int, float]:
    """The exit code of a process that is about to end, and the seconds that it took."""
    began = time.monotonic()
    return running.wait(timeout), time.monotonic() - began
