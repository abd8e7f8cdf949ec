"""Every verb and every refusal: what becomes of the draft, its task and the paper trail."""

from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.canonical import canonical, digest
from nightdesk.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from nightdesk.review.asked import Actor, Asked
from nightdesk.review.decisions import decide
from nightdesk.review.leases import lease
from nightdesk.store import drafts, notices, reviews, tasks
from nightdesk.work import AskPerson, Desk
from tests.review.morning import TERMINAL, Morning, token
from tests.support.hand import START

VERBS = ("approve", "edit", "send_back", "reject", "later")
DRAFT = {"title": "kettle", "bullets": ["kettle one", "zwei ä"], "price": 12.5}


def hash_of(payload: Any) -> str:
    return digest(canonical(payload))


def test_what_is_approved_is_on_its_way_and_on_record(morning: Morning) -> None:
    ana = morning.hire("ana")
    item = morning.one()
    lease(morning.house, item, ana)
    morning.clock.advance(30)
    outcome = morning.decide(item, "approve", ana, note=" fine ")
    assert (outcome.state, outcome.verb, outcome.final, outcome.actor) == ("approved", "approve", True, "user:ana")
    assert (outcome.awaits, outcome.can_undo, outcome.seeded) == (None, True, None)
    [row] = morning.decisions(item)
    assert (row["hash"], row["channel"], row["assurance"]) == (hash_of(DRAFT), "web", "session")
    assert (row["note"], row["reason"], row["final"]) == ("fine", None, True)
    assert (row["opened_at"], (row["decided_at"] - START).total_seconds()) == (START, 30)
    [review] = morning.rows(reviews, item)
    assert (review["leased_by"], review["opened_by"]) == (None, "user:ana")
    assert morning.told(item) == [("state", "approved", "approved", "user:ana")]


def test_what_is_approved_is_staged_in_the_same_transaction(morning: Morning) -> None:
    item = morning.one()
    staged: list[Any] = []

    def stage(conn: sa.Connection, _house: Any, task: Any, draft: Any) -> None:
        state = conn.execute(sa.select(tasks.c.state).where(tasks.c.id == task["id"])).scalar_one()
        staged.append((state, draft["payload"], draft["hash"], draft["version"]))
        if len(staged) == 1:
            raise RuntimeError("the outbox is on fire")

    asked = Asked(item, "approve", hash_of(DRAFT), TERMINAL)
    with pytest.raises(RuntimeError, match="on fire"):
        decide(morning.house, asked, stage)
    assert (morning.state(item), morning.decisions(item)) == ("review", [])
    decide(morning.house, asked, stage)
    assert staged[1] == ("approved", DRAFT, hash_of(DRAFT), 1)


def test_an_edit_is_approved_in_its_own_words(morning: Morning) -> None:
    item = morning.one()
    staged: list[Any] = []
    edits = {"title": "Kettle", "price": 13.5}
    asked = Asked(item, "edit", hash_of(DRAFT), TERMINAL, edits=edits, reason="off brand")
    outcome = decide(morning.house, asked, lambda conn, house, task, draft: staged.append(draft["payload"]))
    new = DRAFT | edits
    assert (outcome.state, outcome.hash) == ("approved", hash_of(new))
    assert outcome.diff == [
        {"path": "price", "before": 12.5, "after": 13.5},
        {"path": "title", "before": "kettle", "after": "Kettle"},
    ]
    assert staged == [new]
    assert morning.task(item)["result"] == new
    [draft] = morning.rows(drafts, item)
    assert (draft["payload"], draft["hash"]) == (new, hash_of(new))
    [row] = morning.decisions(item)
    assert (row["edits"], row["hash"], row["before"]["hash"]) == (edits, hash_of(new), hash_of(DRAFT))
    assert row["before"]["payload"] == DRAFT


def test_gates_look_again_at_what_was_edited(quick_morning: Morning) -> None:
    item = quick_morning.one("memo", "long")
    assert [gate["passed"] for gate in quick_morning.card(item)["gates"]] == [False]
    quick_morning.decide(item, "edit", TERMINAL, edits={"title": "ok"})
    assert [(gate["passed"], gate["value"]) for gate in quick_morning.card(item)["gates"]] == [(True, 2)]
    quick_morning.decide(item, "undo", TERMINAL)
    assert [(gate["passed"], gate["value"]) for gate in quick_morning.card(item)["gates"]] == [(False, 4)]


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (None, "edits: has no fields"),
        ({}, "edits: has no fields"),
        ({"titel": "x"}, 'edits.titel: is no field of the draft; did you mean "title"'),
        ({"price": "dear"}, "price: must"),
        ({"bullets": ["x", 1]}, r"bullets\[1\]: must"),
        ({"title": "kettle"}, "are what is there"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_by_field(quick_morning: Morning, edits: Any, says: str) -> None:
    item = quick_morning.one()
    before = quick_morning.stored(item)
    with pytest.raises(Invalid, match=says):
        quick_morning.decide(item, "edit", TERMINAL, edits=edits)
    assert (quick_morning.stored(item), quick_morning.decisions(item)) == (before, [])


def test_what_is_sent_back_is_done_again_with_what_was_said(morning: Morning) -> None:
    seen: list[Any] = []

    async def body(order: Any, desk: Desk) -> Any:
        seen.append(desk.sent_back)
        said = desk.sent_back
        return DRAFT | {"title": f"{order.name} {desk.version}", "price": 9.5 if said else 12.5}

    morning.open(body)
    item = morning.one()
    outcome = morning.decide(item, "send_back", TERMINAL, reason="off brand", note="no jokes")
    assert (outcome.state, outcome.version, outcome.can_undo) == ("queued", 1, True)
    task = morning.task(item)
    assert (task["version"], task["result"], task["error"]) == (2, None, None)
    assert morning.told(item)[-1][:3] == ("state", "queued", "sent back: off brand: no jokes")
    morning.clock.advance(90)
    morning.run_all()
    assert seen[0] is None
    assert (seen[1].reason, seen[1].note, seen[1].draft["title"]) == ("off brand", "no jokes", "kettle 1")
    card = morning.card(item)
    assert (card["version"], card["state"]) == (2, "review")
    assert card["why_here"] == "it was sent back before; this is version 2"
    assert (card["changed"]["reason"], card["changed"]["actor"]) == ("off brand", "cli:test")
    assert [change["path"] for change in card["changed"]["diff"]] == ["price", "title"]
    assert [draft["version"] for draft in morning.rows(drafts, item)] == [1, 2]
    assert morning.decide(item, "approve", TERMINAL).state == "approved"


def test_work_of_the_night_that_is_sent_back_waits_for_the_next(quick_morning: Morning) -> None:
    item = quick_morning.one()
    quick_morning.open(when="night")
    quick_morning.decide(item, "send_back", TERMINAL, note="again")
    with quick_morning.house.db.read() as conn:
        row = conn.execute(sa.select(tasks).where(tasks.c.id == item)).mappings().one()
    assert (row["state"], row["rank"], row["until"]) == ("queued", None, None)
    quick_morning.clock.advance(3600)
    assert quick_morning.run_all() == 0


def test_a_rejection_ends_it_and_is_told_outside_only_later(morning: Morning) -> None:
    item = morning.one(callback_url="https://example.com/told")
    outcome = morning.decide(item, "reject", TERMINAL, reason="not ours to say")
    assert (outcome.state, outcome.final) == ("rejected", True)
    [notice] = morning.rows(notices, item)
    assert (notice["next_at"] - START).total_seconds() == 90
    assert morning.told(item) == [("state", "rejected", "rejected: not ours to say", "cli:test")]


def test_later_is_behind_the_others_or_out_of_sight(morning: Morning) -> None:
    first, second, third = morning.lay("listing", "a", "b", "c")
    assert morning.listed() == sorted([first, second, third])
    order = morning.listed()
    outcome = morning.decide(order[0], "later", TERMINAL)
    assert (outcome.state, outcome.final) == ("review", False)
    morning.clock.advance(1)
    morning.decide(order[1], "later", TERMINAL, reason="end")
    assert morning.listed() == [order[2], order[0], order[1]]
    morning.clock.advance(1)
    morning.decide(order[0], "later", TERMINAL, reason="end")
    assert morning.listed() == [order[2], order[1], order[0]]
    morning.decide(order[2], "later", TERMINAL, reason="tomorrow")
    morning.decide(order[1], "later", TERMINAL, reason="2026-01-31T22:30:00Z")
    assert (morning.listed(), set(morning.listed(later=True))) == ([order[0]], {order[1], order[2]})
    morning.clock.advance(1800)
    assert morning.listed() == [order[1], order[0]]
    morning.clock.advance(9 * 3600)
    assert len(morning.listed()) == 3


@pytest.mark.parametrize("until", ["soon", "2026-01-31T21:00:00Z", "2026-02-01T07:00:00"])
def test_nothing_is_put_off_until_nonsense(quick_morning: Morning, until: str) -> None:
    item = quick_morning.one()
    with pytest.raises(Invalid, match="end, tomorrow, or a moment"):
        quick_morning.decide(item, "later", TERMINAL, reason=until)


def test_the_same_again_is_the_same_answer(morning: Morning) -> None:
    for verb in ("approve", "edit", "send_back", "reject"):
        said: Any = {"edits": {"title": "x"}} if verb == "edit" else {"reason": "so"}
        item = morning.one(name=verb)
        hash_ = morning.card(item)["hash"]
        first = morning.decide(item, verb, TERMINAL, hash_, **said)
        morning.clock.advance(5)
        assert morning.decide(item, verb, TERMINAL, hash_, **said) == first
        assert (first.verb, len(morning.decisions(item)), len(morning.told(item))) == (verb, 1, 1)


def test_another_verb_or_person_is_told_what_stands(morning: Morning) -> None:
    item = morning.one()
    morning.decide(item, "approve", TERMINAL)
    before = morning.stored(item)
    asked = [(verb, actor) for verb in VERBS for actor in (TERMINAL, token()) if (verb, actor) != ("approve", TERMINAL)]
    for verb, actor in asked:
        told = morning.outcome_in_the_way(item, verb, actor, edits={"title": "x"}, reason="x")
        assert (told.verb, told.actor, told.state, told.final) == ("approve", "cli:test", "approved", True)
        assert told.sentence == "cli:test has decided: approve."
    assert (morning.stored(item), len(morning.decisions(item))) == (before, 1)


def test_another_edit_is_not_the_same_again(quick_morning: Morning) -> None:
    item = quick_morning.one()
    quick_morning.decide(item, "edit", TERMINAL, hash_of(DRAFT), edits={"title": "x"})
    told = quick_morning.outcome_in_the_way(item, "edit", TERMINAL, hash_of(DRAFT), edits={"title": "y"})
    assert told.hash == hash_of(DRAFT | {"title": "x"})


def test_only_what_was_seen_is_decided_on(morning: Morning) -> None:
    item = morning.one()
    said: Any = {"edits": {"title": "x"}, "reason": "end"}
    for verb in (*VERBS, "undo"):
        told = morning.outcome_in_the_way(item, verb, TERMINAL, "0" * 64, **said)
        assert (told.verb, told.state, told.hash) == (None, "review", hash_of(DRAFT))
    with morning.house.db.write() as conn:
        conn.execute(drafts.update(), {"payload": DRAFT | {"title": "changed in the store"}})
    for verb in (*VERBS, "undo"):
        told = morning.outcome_in_the_way(item, verb, TERMINAL, hash_of(DRAFT), **said)
        assert (told.verb, told.hash) == (None, hash_of(DRAFT | {"title": "changed in the store"}))
    assert morning.decisions(item) == []


def test_a_new_version_is_not_what_was_seen_before(quick_morning: Morning) -> None:
    async def body(order: Any, desk: Desk) -> Any:
        return DRAFT | {"title": f"{order.name} {desk.version}"}

    quick_morning.open(body)
    item = quick_morning.one()
    old = quick_morning.card(item)["hash"]
    sent = quick_morning.decide(item, "send_back", TERMINAL, reason="x")
    told = quick_morning.outcome_in_the_way(item, "approve", TERMINAL, old)
    assert (told.verb, told.state) == ("send_back", "queued")
    quick_morning.clock.advance(90)
    quick_morning.run_all()
    told = quick_morning.outcome_in_the_way(item, "approve", TERMINAL, old)
    assert (told.verb, told.state, told.version) == (None, "review", 2)
    again = quick_morning.decide(item, "send_back", TERMINAL, old, reason="x")
    assert (again.verb, again.at, again.state) == ("send_back", sent.at, "review")


def test_what_was_cancelled_is_not_decided_on(quick_morning: Morning) -> None:
    from nightdesk.work.tasks import cancel

    item = quick_morning.one()
    cancel(quick_morning.house, item, actor="me")
    told = quick_morning.outcome_in_the_way(item, "approve", TERMINAL)
    assert (told.verb, told.state, told.sentence) == (None, "cancelled", "It is cancelled now.")


def test_without_a_draft_there_is_nothing_to_approve(quick_morning: Morning) -> None:
    async def stuck(_order: Any, desk: Desk) -> Any:
        if desk.sent_back is None:
            raise AskPerson("Which kettle?")
        return DRAFT | {"title": desk.sent_back.sentence}

    quick_morning.open(stuck)
    item, other = quick_morning.lay("listing", "a", "b")
    card = quick_morning.card(item)
    assert (card["why_here"], card["payload"]) == ("needs a person: Which kettle?", None)
    assert card["verbs"] == ["edit", "send_back", "reject", "later"]
    with pytest.raises(Invalid, match="nothing to approve"):
        quick_morning.decide(item, "approve", TERMINAL)
    before = quick_morning.stored(item)
    with pytest.raises(Invalid, match="bullets"):
        quick_morning.decide(item, "edit", TERMINAL, edits={"title": "by hand"})
    quick_morning.decide(item, "edit", TERMINAL, edits=DRAFT | {"title": "by hand"})
    assert (quick_morning.state(item), quick_morning.task(item)["error"]) == ("approved", None)
    quick_morning.decide(item, "undo", TERMINAL)
    assert quick_morning.stored(item) == before
    quick_morning.decide(other, "send_back", TERMINAL, note="the red one")
    quick_morning.clock.advance(90)
    quick_morning.run_all()
    assert quick_morning.card(other)["payload"]["title"] == "the red one"


@pytest.mark.parametrize("said", [{}, {"reason": " "}, {"note": ""}])
def test_nothing_goes_back_without_a_word(quick_morning: Morning, said: dict[str, str]) -> None:
    item = quick_morning.one()
    with pytest.raises(Invalid, match="Nobody could tell what to mend"):
        quick_morning.decide(item, "send_back", TERMINAL, **said)


def test_unknown_items_and_verbs_are_refused(quick_morning: Morning) -> None:
    item = quick_morning.one()
    with pytest.raises(Invalid, match='did you mean "approve"'):
        quick_morning.decide(item, "aprove", TERMINAL)
    for unknown in ("0" * 32, "", "q.x.y", "b.day.all.2026-01-31", "b.", "q."):
        with pytest.raises(NotFound, match="nothing on the desk"):
            decide(quick_morning.house, Asked(unknown, "approve", "x", TERMINAL))
    done = quick_morning.submit("drill", {"name": "one"}).id
    with pytest.raises(NotFound, match="nothing on the desk"):
        decide(quick_morning.house, Asked(done, "approve", "x", TERMINAL))
    with pytest.raises(NotFound, match="nothing on the desk"):
        decide(quick_morning.house, Asked(item, "approve", "x", TERMINAL, tenant="another"))


def test_what_needs_its_playbook_waits_for_it(quick_morning: Morning) -> None:
    import dataclasses

    from nightdesk.playbook import Registry

    item = quick_morning.one()
    quick_morning.house = dataclasses.replace(quick_morning.house, registry=Registry([]))
    for verb in ("edit", "send_back"):
        with pytest.raises(Conflict, match="Playbook listing is gone"):
            quick_morning.decide(item, verb, TERMINAL, edits={"title": "x"}, reason="x")
    assert quick_morning.decide(item, "reject", TERMINAL).state == "rejected"


def person(name: str, **fields: Any) -> Actor:
    rights = fields.pop("rights", frozenset({"review"}))
    given = {"ceiling": "irreversible", "channel": "web", "assurance": "session"} | fields
    return Actor(f"user:{name}", f"user-{name}", "reviewer", rights=rights, **given)


@pytest.mark.parametrize(
    ("kind", "actor", "refused", "right"),
    [
        ("listing", person("x", rights=frozenset({"read"})), "approve edit send_back reject later undo", "review"),
        ("listing", person("x", ceiling="reversible"), "approve edit send_back reject undo", "review customer"),
        ("payout", person("x", ceiling="customer"), "approve edit send_back reject undo", "review irreversible"),
        ("payout", token("t"), "approve edit send_back reject undo", "review irreversible"),
        ("listing", person("x", channel="link", assurance="link"), "approve edit reject undo", "review customer"),
        ("payout", person("x", channel="link"), "approve edit reject undo", "review irreversible"),
        ("payout", person("x", channel="chat"), "approve edit reject undo", "review irreversible"),
        (
            "advert",
            Actor("chat:U1", None, "reviewer", "irreversible", "chat", "chat", frozenset({"review"})),
            "approve edit send_back reject later undo",
            "review",
        ),
    ],
)
def test_who_may_not_is_told_which_right_is_missing(
    quick_morning: Morning, kind: str, actor: Actor, refused: str, right: str
) -> None:
    item = quick_morning.one(kind)
    before = quick_morning.stored(item)
    said: Any = {"edits": {"title": "x"}, "reason": "end"}
    for verb in refused.split():
        with pytest.raises(Forbidden) as refusal:
            quick_morning.decide(item, verb, actor, **said)
        assert refusal.value.right == right
    assert (quick_morning.stored(item), quick_morning.decisions(item)) == (before, [])
    for verb in {"send_back", "later"} - set(refused.split()):
        quick_morning.decide(quick_morning.one(kind, verb), verb, actor, **said)


def test_a_link_is_enough_for_what_can_be_taken_back(quick_morning: Morning) -> None:
    item = quick_morning.one("advert")
    actor = person("x", channel="link", assurance="link")
    assert quick_morning.decide(item, "approve", actor).channel == "link"


def test_nobody_decides_faster_than_once_a_second(quick_morning: Morning) -> None:
    ana = quick_morning.hire("ana")
    items = quick_morning.lay("listing", *(f"n{number}" for number in range(61)))
    for item in items[:60]:
        quick_morning.decide(item, "approve", ana)
    with pytest.raises(TooMany, match="60 times within a minute"):
        quick_morning.decide(items[60], "approve", ana)
    quick_morning.decide(items[0], "undo", ana)
    quick_morning.clock.advance(60)
    assert quick_morning.decide(items[60], "approve", ana).state == "approved"


def test_a_decision_that_was_too_quick_is_flagged(quick_morning: Morning) -> None:
    async def long(_order: Any, _desk: Desk) -> Any:
        return DRAFT | {"title": "word " * 238}

    quick_morning.open(long)
    items = quick_morning.lay("listing", "a", "b", "c", "d")
    opened = quick_morning.clock.now()
    quick_morning.clock.advance(14)
    quick_morning.decide(items[0], "approve", TERMINAL, opened_at=opened)
    quick_morning.decide(items[1], "later", TERMINAL, opened_at=opened)
    quick_morning.clock.advance(2)
    quick_morning.decide(items[2], "approve", TERMINAL, opened_at=opened)
    quick_morning.decide(items[3], "approve", TERMINAL)
    flags = [(row["quick"], row["opened_at"] is None) for item in items for row in quick_morning.decisions(item)]
    assert flags == [(True, False), (False, False), (False, False), (False, True)]


def test_when_it_was_opened_is_believed_only_if_it_can_be(quick_morning: Morning) -> None:
    from datetime import timedelta

    early, late = quick_morning.lay("listing", "a", "b")
    now = quick_morning.clock.now()
    quick_morning.decide(early, "approve", TERMINAL, opened_at=now - timedelta(days=1))
    quick_morning.decide(late, "approve", TERMINAL, opened_at=now + timedelta(seconds=1))
    assert [quick_morning.decisions(item)[0]["opened_at"] for item in (early, late)] == [None, None]
