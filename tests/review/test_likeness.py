"""The gate for drafts that were made before, on both databases."""

import random
import time

import pytest
import sqlalchemy as sa

from nightdesk.house import House
from nightdesk.intake import Submission, submit
from nightdesk.playbook.gates import Duplicate
from nightdesk.review.likeness import duplicate, marks_of
from nightdesk.review.material import Material
from nightdesk.store import draft_marks, drafts, tasks
from nightdesk.work.draft import Draft, Verdict, store_draft

WORDS = [f"word{number}" for number in range(3_000)]


def _text(seed: int, count: int = 300) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def _changed(words: list[str], share: float, seed: int = 1) -> list[str]:
    """The text with so much of it, at its end, written anew."""
    kept = round(len(words) * (1 - share))
    return words[:kept] + _text(seed + 10_000, len(words) - kept)


class _Shelf:
    """Drafts as legs leave them."""

    def __init__(self, house: House, kind: str = "blog/main", **settings: object) -> None:
        self.house = house
        self.kind = kind
        self.gate = Duplicate.model_validate(settings)

    def put(self, name: str, words: list[str], state: str = "review") -> str:
        task_id = submit(self.house, Submission("drill", {"name": name})).id
        material = self._material(words)
        draft = Draft(material.draft, marks=marks_of(self.gate, material, self.kind))
        with self.house.db.write() as conn:
            ended = {"ended_at": self.house.clock.now()} if state in ("rejected", "done") else {}
            conn.execute(tasks.update().where(tasks.c.id == task_id), {"state": state, "rank": None, **ended})
            store_draft(self.house.db, conn, self.house.clock.now(), {"id": task_id, "version": 1}, draft)
        return task_id

    def look(self, words: list[str], task_id: str = "new") -> Verdict:
        material = self._material(words)
        with self.house.db.read() as conn:
            return duplicate(self.gate, material, conn, task_id, marks_of(self.gate, material, self.kind))

    def _material(self, words: list[str]) -> Material:
        return Material({"title": "x", "body": " ".join(words)}, {})


def test_the_same_again_is_found_and_named(house: House) -> None:
    shelf = _Shelf(house)
    task_id = shelf.put("first", _text(1))
    shelf.put("other", _text(2))
    verdict = shelf.look(_text(1))
    assert (verdict.passed, verdict.value) == (False, 1.0)
    assert list(verdict.evidence) == [f"100% is the same as in task {task_id} (key first)"]
    assert shelf.look(_text(3)).passed


def test_how_much_is_the_same_is_measured_exactly(house: House) -> None:
    shelf = _Shelf(house, max=0.8)
    shelf.put("first", _text(1))
    little, much = shelf.look(_changed(_text(1), 0.05)), shelf.look(_changed(_text(1), 0.3))
    assert (little.passed, much.passed) == (False, True)
    assert little.value == pytest.approx(0.89, abs=0.02)
    assert much.value in (0.0, pytest.approx(0.53, abs=0.03))


def test_nearly_every_copy_is_found(house: House) -> None:
    """By chance that is the same on every run: of forty that are five sixths the same, all."""
    shelf = _Shelf(house, max=0.5)
    for seed in range(40):
        shelf.put(f"first {seed}", _text(seed, 120))
    found = [not shelf.look(_changed(_text(seed, 120), 0.08, seed)).passed for seed in range(40)]
    assert sum(found) == 40


def test_a_text_of_a_few_words_has_marks_too(house: House) -> None:
    shelf = _Shelf(house)
    shelf.put("first", ["two", "words"])
    assert not shelf.look(["Two", "WORDS"]).passed
    assert shelf.look(["two", "other"]).passed


def test_other_kinds_other_fields_and_the_task_itself_do_not_count(house: House) -> None:
    shelf = _Shelf(house)
    task_id = shelf.put("first", _text(1))
    assert shelf.look(_text(1), task_id).passed
    assert _Shelf(house, "blog/other tenant").look(_text(1)).passed
    assert _Shelf(house, field="title").look(_text(1)).passed


@pytest.mark.parametrize(("state", "counts"), [("review", True), ("done", True), ("rejected", False)])
def test_what_was_refused_is_no_earlier_output(house: House, state: str, counts: bool) -> None:
    shelf = _Shelf(house)
    shelf.put("first", _text(1), state)
    assert shelf.look(_text(1)).passed is not counts


def test_nothing_at_all_is_no_copy_of_nothing(house: House) -> None:
    shelf = _Shelf(house, field="summary")
    shelf.put("first", [])
    assert shelf.look([]).passed


def test_a_hundred_thousand_drafts_make_it_no_slower(house: House) -> None:
    """Their marks are made up; looking is a matter of the index alone."""
    shelf = _Shelf(house)
    before = shelf.put("first", _text(1))
    rows = [
        {"mark": (number * 7_919 + mark) % 2**62, "task_id": before, "version": 2 + number}
        for number in range(8_400)
        for mark in range(12)
    ]
    with house.db.write() as conn:
        conn.execute(draft_marks.insert(), rows)
        if not house.db.is_sqlite:
            conn.execute(sa.text("ANALYZE draft_marks"))
    with house.db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(draft_marks)).scalar_one() > 100_000
    began = time.monotonic()
    for _ in range(20):
        assert not shelf.look(_text(1)).passed
    assert (time.monotonic() - began) / 20 < 0.5


def test_a_huge_draft_is_compared_in_a_moment(house: House) -> None:
    shelf = _Shelf(house)
    words = _text(5, 40_000)
    shelf.put("huge", words)
    began = time.monotonic()
    assert not shelf.look(words).passed
    assert time.monotonic() - began < 20


def test_a_draft_that_is_stored_again_leaves_its_marks_once(house: House) -> None:
    shelf = _Shelf(house)
    task_id = shelf.put("first", _text(1))
    shelf.put("first", _text(1))
    with house.db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(drafts)).scalar_one() == 1
        assert conn.execute(sa.select(draft_marks.c.task_id).distinct()).scalars().all() == [task_id]
