"""Undo: until something has come of a decision the draft can lie on the desk again, byte for byte as it lay there."""

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from nightdesk.errors import Conflict
from nightdesk.house import House
from nightdesk.review.asked import Asked
from nightdesk.review.decisions import decide
from nightdesk.store import notices, releases, tasks
from nightdesk.work.states import lock_task, move
from tests.review.morning import TERMINAL, Morning, token

VERBS = ["approve", "edit", "send_back", "reject", "later"]
SAID: dict[str, Any] = {"edits": {"title": "x"}, "reason": "end", "note": "ö"}


def stage(conn: sa.Connection, house: House, task: Any, draft: Any) -> None:
    """As an outbox does."""
    row = {"id": f"{task['id']}.{draft['hash'][:8]}", "task_id": task["id"], "version": draft["version"]}
    row |= {"hash": draft["hash"], "connector": "folder", "target": {}, "key": draft["hash"], "state": "waiting"}
    conn.execute(releases.insert(), row | {"created_at": house.clock.now(), "next_at": house.clock.now()})


def test_every_decision_can_be_taken_back(morning: Morning) -> None:
    for verb in VERBS:
        item = morning.one(name=verb, callback_url="https://example.com/told")
        before, card = morning.stored(item), morning.card(item)
        decided = morning.decide(item, verb, TERMINAL, **SAID)
        assert decided.can_undo
        undone = morning.decide(item, "undo", token(), decided.hash)
        assert (undone.state, undone.verb, undone.undone_by, undone.can_undo) == ("review", verb, "token:robot", False)
        assert morning.stored(item) == before
        [told] = [row for row in morning.card(item)["history"] if row["undone_by"] == "token:robot"]
        assert told["verb"] == verb
        assert morning.card(item) | {"history": []} == card
        assert morning.rows(notices, item) == []
        assert morning.decide(item, "approve", TERMINAL).state == "approved"


@pytest.mark.parametrize("verb", VERBS)
def test_undo_again_undoes_nothing_more(quick_morning: Morning, verb: str) -> None:
    item = quick_morning.one()
    quick_morning.decide(item, "later", TERMINAL, reason="end")
    decided = quick_morning.decide(item, verb, TERMINAL, **SAID)
    first = quick_morning.decide(item, "undo", TERMINAL, decided.hash)
    assert quick_morning.decide(item, "undo", TERMINAL, decided.hash) == first
    assert [row["undone_at"] is not None for row in quick_morning.decisions(item)] == [False, True]


_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_edits = st.fixed_dictionaries(
    {},
    optional={
        "title": _text,
        "bullets": st.lists(_text, max_size=3),
        "price": st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-(10**12), 10**12),
    },
)
_said = st.tuples(st.sampled_from(VERBS), _edits, st.sampled_from(["end", "tomorrow"]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(st.lists(_said, min_size=1, max_size=6))
def test_whatever_was_decided_comes_back_byte_by_byte(morning: Morning, said: list[tuple[str, Any, str]]) -> None:
    """After any decisions, each undone before the next or left standing if it leaves the draft on the desk."""
    item = morning.one(name=f"n{len(morning.rows(tasks))}")
    for verb, edits, until in said:
        before = morning.stored(item)
        if verb == "edit" and all(morning.card(item)["payload"][name] == value for name, value in edits.items()):
            continue
        outcome = morning.decide(item, verb, TERMINAL, edits=edits, reason=until)
        if verb == "later" and until == "end":
            continue
        morning.decide(item, "undo", token(), outcome.hash)
        assert morning.stored(item) == before


def test_what_was_staged_is_void_and_may_be_staged_again(morning: Morning) -> None:
    item = morning.one()
    asked = Asked(item, "approve", morning.card(item)["hash"], TERMINAL)
    decide(morning.house, asked, stage)
    morning.decide(item, "undo", TERMINAL)
    [row] = morning.rows(releases, item)
    assert (row["state"], row["next_at"], row["ended_at"]) == ("voided", None, morning.clock.now())
    decide(morning.house, Asked(item, "edit", asked.hash, TERMINAL, edits={"title": "x"}), stage)
    assert sorted(row["state"] for row in morning.rows(releases, item)) == ["voided", "waiting"]


@pytest.mark.parametrize("state", ["releasing", "done"])
def test_what_is_leaving_is_not_undone_here(quick_morning: Morning, state: str) -> None:
    item = quick_morning.one()
    decided = quick_morning.decide(item, "approve", TERMINAL)
    with quick_morning.house.db.write() as conn:
        for to in ("releasing", "done")[: 1 + (state == "done")]:
            task = lock_task(conn, item)
            assert task is not None
            move(conn, quick_morning.clock.now(), task, to, cause="released", actor="worker")
    with pytest.raises(Conflict, match="nightdesk release undo"):
        quick_morning.decide(item, "undo", TERMINAL)
    assert quick_morning.decide(item, "approve", TERMINAL).state == state
    assert not quick_morning.decide(item, "approve", TERMINAL, decided.hash).can_undo


def test_the_next_version_is_not_undone_once_it_has_begun(quick_morning: Morning) -> None:
    item = quick_morning.one()
    hash_ = quick_morning.card(item)["hash"]
    quick_morning.decide(item, "send_back", TERMINAL, hash_, reason="x")
    quick_morning.clock.advance(90)
    quick_morning.run_all()
    with pytest.raises(Conflict, match="Its next version is under way"):
        quick_morning.decide(item, "undo", TERMINAL, hash_)


def test_a_leg_that_was_queued_for_what_was_undone_does_nothing(quick_morning: Morning) -> None:
    item = quick_morning.one()
    quick_morning.decide(item, "send_back", TERMINAL, reason="x")
    quick_morning.decide(item, "undo", TERMINAL)
    before = quick_morning.stored(item)
    quick_morning.clock.advance(90)
    quick_morning.run_all()
    assert quick_morning.stored(item) == before


def test_a_rejection_that_was_told_outside_stands(quick_morning: Morning) -> None:
    item = quick_morning.one(callback_url="https://example.com/told")
    quick_morning.decide(item, "reject", TERMINAL)
    with quick_morning.house.db.write() as conn:
        conn.execute(notices.update(), {"attempts": 1})
    with pytest.raises(Conflict, match="told outside"):
        quick_morning.decide(item, "undo", TERMINAL)
    assert quick_morning.state(item) == "rejected"


def test_what_nobody_has_decided_is_not_undone(quick_morning: Morning) -> None:
    item = quick_morning.one()
    told = quick_morning.outcome_in_the_way(item, "undo", TERMINAL)
    assert (told.verb, told.state) == (None, "review")
