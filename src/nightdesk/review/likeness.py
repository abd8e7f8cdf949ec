"""The gate for drafts that were made before: what a new draft has in common with earlier ones of its kind.

Two texts are compared by their runs of four words: the share of all their runs that both have. Comparing with every
earlier draft would take longer each night, so each draft leaves a few marks, which are numbers made from its runs by
chance that depends on nothing else: of two texts that are eight tenths the same, at least one mark is nearly always
the same (1 - (1 - 0.8³)¹² = 0.9998), of two that share three tenths of their runs, one time in four. Only drafts with
a mark in common are compared, so that a draft costs the same whether there are ten before it or a hundred thousand.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from nightdesk.playbook.gates import Duplicate
from nightdesk.review.material import Material, verdict
from nightdesk.review.words import plain, words
from nightdesk.store import draft_marks, drafts, tasks
from nightdesk.work.draft import Verdict

_RUN = 4
_MARKS = 12
_LOWEST_PER_MARK = 3
_PLACES = _MARKS * _LOWEST_PER_MARK
_COMPARED = 20
# What was refused or given up is no earlier output.
_NOT_KEPT = ("rejected", "cancelled", "dead")


def marks_of(settings: Duplicate, material: Material, kind: str) -> frozenset[int]:
    """The marks of this draft; `kind` is what only drafts of the same playbook and tenant have."""
    lowest = _lowest(_runs(material.whole(settings.field)))
    if not lowest:
        return frozenset()
    named = f"{kind}/{settings.field or ''}"
    groups = [lowest[start : start + _LOWEST_PER_MARK] for start in range(0, _PLACES, _LOWEST_PER_MARK)]
    return frozenset(_hash(f"{named}/{number}/{group}") >> 1 for number, group in enumerate(groups))


def duplicate(
    settings: Duplicate, material: Material, conn: sa.Connection, task_id: str, marks: frozenset[int]
) -> Verdict:
    """The nearest of the earlier drafts that share a mark."""
    own = _runs(material.whole(settings.field))
    found = [(_likeness(own, _runs_of(settings, row.payload)), row) for row in _earlier(conn, task_id, marks)]
    share, nearest = max(found, key=lambda pair: pair[0], default=(0.0, None))
    evidence = []
    if nearest is not None and share > settings.max:
        evidence.append(f"{share:.0%} is the same as in task {nearest.task_id} (key {nearest.key})")
    return verdict(
        settings,
        passed=share <= settings.max,
        value=round(share, 3),
        threshold=f"at most {settings.max:.0%} of an earlier draft",
        evidence=evidence,
    )


def _earlier(conn: sa.Connection, task_id: str, marks: frozenset[int]) -> Sequence[Any]:
    """Drafts of other tasks that share marks with this one, those that share most first."""
    if not marks:
        return ()
    shared = (
        sa.select(draft_marks.c.task_id, draft_marks.c.version, sa.func.count().label("common"))
        .where(draft_marks.c.mark.in_(sorted(marks)), draft_marks.c.task_id != task_id)
        .group_by(draft_marks.c.task_id, draft_marks.c.version)
        .order_by(sa.desc("common"))
        .limit(_COMPARED)
        .subquery()
    )
    same = (drafts.c.task_id == shared.c.task_id) & (drafts.c.version == shared.c.version)
    query = (
        sa.select(drafts.c.task_id, drafts.c.payload, tasks.c.key)
        .join(shared, same)
        .join(tasks, tasks.c.id == drafts.c.task_id)
        .where(tasks.c.state.not_in(_NOT_KEPT))
    )
    return conn.execute(query).all()


def _runs_of(settings: Duplicate, payload: Any) -> set[int]:
    return _runs(Material(payload, None).whole(settings.field))


def _runs(text: str) -> set[int]:
    said = words(plain(text))
    if len(said) <= _RUN:
        return {_hash(" ".join(said))} if said else set()
    return {_hash(" ".join(said[start : start + _RUN])) for start in range(len(said) - _RUN + 1)}


def _likeness(left: set[int], right: set[int]) -> float:
    return len(left & right) / len(left | right) if left and right else 0.0


def _lowest(runs: set[int]) -> list[int]:
    """The runs are dealt to so many places by chance, and each place keeps its lowest; an empty one takes what the next
    one that is not has."""
    places: list[int | None] = [None] * _PLACES
    for run in runs:
        place = run % _PLACES
        held = places[place]
        places[place] = run if held is None else min(held, run)
    if not runs:
        return []
    return [_next_held(places, place) for place in range(_PLACES)]


def _next_held(places: list[int | None], place: int) -> int:
    for step in range(_PLACES):
        held = places[(place + step) % _PLACES]
        if held is not None:
            return held + step  # what is borrowed differs from what is held
    raise AssertionError("no place holds anything")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
