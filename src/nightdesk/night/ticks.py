"""Scheduled playbooks that mostly find nothing to do: what they look for had better wake them."""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.playbook import Registry
from nightdesk.store import Database, tasks

_LAST = 50
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class Idle:
    """`empty` of the last `ticks` ended with nothing in their result."""

    playbook: str
    ticks: int
    empty: int


def idle_crons(db: Database, registry: Registry) -> Iterator[Idle]:
    """The scheduled playbooks of which more than half of the last ticks came to nothing."""
    for playbook in registry:
        if playbook.when.kind == "cron":
            results = _last_results(db, playbook.name)
            empty = sum(map(_is_empty, results))
            if len(results) >= _FEWEST and empty * 2 > len(results):
                yield Idle(playbook.name, len(results), empty)


def _last_results(db: Database, playbook: str) -> list[Json]:
    done = sa.select(tasks.c.result).where(tasks.c.playbook == playbook, tasks.c.state.in_(("done", "review")))
    with db.read() as conn:
        return list(conn.scalars(done.order_by(tasks.c.created_at.desc()).limit(_LAST)))


def _is_empty(result: Json) -> bool:
    """Nothing, none, or nothing but that; that something is false or zero says as little."""
    if isinstance(result, dict):
        return all(map(_is_empty, result.values()))
    if isinstance(result, list):
        return all(map(_is_empty, result))
    return not result
