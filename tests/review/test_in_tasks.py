"""Gates as a part of a task's work, on both databases: what becomes of the task, what is kept, what is done once."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from nightdesk.house import House
from nightdesk.playbook.registry import load_yaml
from nightdesk.store import drafts, runs
from nightdesk.work import Desk, RetryLater
from nightdesk.work.insight import history
from tests.review.site import served
from tests.support.hand import Hand
from tests.support.playbooks import write_yaml


class Text(BaseModel):
    title: str
    body: str = ""


async def echo(order: Any, desk: Desk) -> Text:
    """The draft is the name of the task, twice."""
    return Text(title=order.name, body=order.name)


def draft_of(house: House, task_id: str) -> Any:
    with house.db.read() as conn:
        return conn.execute(sa.select(drafts).where(drafts.c.task_id == task_id)).one_or_none()


def one(hand: Hand, name: str, body: Any = echo, **stated: Any) -> dict[str, Any]:
    """A task of a playbook with these gates, done to its end."""
    hand.have(body, **{"output": Text, **stated})
    task_id = hand.submit("job", {"name": name}).id
    hand.run_all()
    return hand.task(task_id)


def test_a_draft_that_passes_is_kept_with_what_each_gate_found(hand: Hand) -> None:
    task = one(hand, "fine", gates=[{"length": {"field": "title", "max": 9}}, "no_prompt_leak"])
    draft = draft_of(hand.house, task["id"])
    assert (task["state"], task["error"]) == ("done", None)
    assert (draft.version, draft.payload, draft.passed) == (1, {"title": "fine", "body": "fine"}, True)
    assert [(verdict["gate"], verdict["passed"]) for verdict in draft.gates] == [
        ("length", True),
        ("no_prompt_leak", True),
    ]
    assert draft.gates[0] == {
        "gate": "length",
        "field": "title",
        "passed": True,
        "value": 4,
        "threshold": "at most 9 characters",
        "evidence": [],
    }


@pytest.mark.parametrize("risk", ["internal", "reversible", "customer", "irreversible"])
def test_a_draft_that_fails_is_no_crash_but_for_a_person(hand: Hand, risk: str) -> None:
    task = one(
        hand, "far too long", risk=risk, gates=[{"length": {"field": "title", "max": 5}}, {"length": {"max": 99}}]
    )
    draft = draft_of(hand.house, task["id"])
    last = history(hand.house, task["id"])[-1]
    assert (task["state"], task["error"], task["result"]) == (
        "review",
        None,
        {"title": "far too long", "body": "far too long"},
    )
    assert (draft.passed, [verdict["passed"] for verdict in draft.gates]) == (False, [False, True])
    assert last["cause"].startswith(
        "a draft failed its gates: length of title: 12, where at most 5 characters is asked for"
    )
    assert last["detail"] == {"gates": ["length"]}


def test_a_draft_without_gates_is_kept_where_a_person_will_look(hand: Hand) -> None:
    internal, customer = one(hand, "a"), one(hand, "b", risk="customer")
    assert (internal["state"], draft_of(hand.house, internal["id"])) == ("done", None)
    assert (customer["state"], draft_of(hand.house, customer["id"]).gates) == ("review", [])
    assert history(hand.house, customer["id"])[-1]["cause"] == "a draft is ready"


def test_an_output_of_another_form_comes_to_a_person_without_a_draft(hand: Hand) -> None:
    async def wrong(order: Any, desk: Desk) -> dict[str, int]:
        return {"title": 5}

    task = one(hand, "a", wrong, gates=["no_prompt_leak"])
    assert (task["state"], task["error"]["class"], draft_of(hand.house, task["id"])) == ("review", "person", None)


def test_what_a_gate_looks_at_survives_as_it_is(hand: Hand) -> None:
    """Text of any kind, and a lot of evidence, of which some is kept."""
    name = "\u202eevil\u202c 三徳 \U0001f600" + "x" * 300
    task = one(
        hand,
        name,
        gates=[{"forbidden": {"phrases": [f"{letter}" for letter in "xyzabcdefghijklm三"]}}, {"length": {"max": 1}}],
    )
    draft = draft_of(hand.house, task["id"])
    assert draft.payload == {"title": name, "body": name}
    assert not draft.passed
    assert all(len(verdict["evidence"]) <= 10 for verdict in draft.gates)


def test_a_function_of_the_user_is_given_draft_and_input(hand: Hand) -> None:
    seen = []

    async def look(draft: Text, order: Any) -> list[str]:
        seen.append((draft.title, order.name))
        return ["one", "two"]

    task = one(hand, "a", gates=[look])
    [verdict] = draft_of(hand.house, task["id"]).gates
    assert seen == [("a", "a")]
    assert (verdict["gate"], verdict["passed"], verdict["evidence"]) == ("look", False, ["one", "two"])


def test_a_function_that_breaks_lets_nothing_through_and_loses_nothing(hand: Hand) -> None:
    def broken(draft: Text, order: Any) -> bool:
        return bool(1 / 0)

    task = one(hand, "a", gates=[broken])
    [verdict] = draft_of(hand.house, task["id"]).gates
    assert (task["state"], task["result"]) == ("review", {"title": "a", "body": "a"})
    assert verdict["evidence"] == ["the check broke: ZeroDivisionError: division by zero"]


def test_a_function_that_cannot_do_it_now_is_asked_again(hand: Hand) -> None:
    asked = []

    def shy(draft: Text, order: Any) -> bool:
        asked.append(1)
        if len(asked) == 1:
            raise RetryLater("the dictionary is away")
        return True

    hand.have(echo, output=Text, gates=[shy])
    task_id = hand.submit("job", {"name": "a"}).id
    hand.settle()
    assert (hand.state(task_id), len(asked)) == ("done", 2)


def test_functions_beside_the_yaml_are_gates_too(hand: Hand) -> None:
    file = write_yaml(
        hand.house.home,
        """\
        name: checked
        when: now
        input: {name: string}
        output: {title: string}
        run: run.py:work
        gates: [{check: "rules.py:no_shouting"}]
        """,
        folder="checked",
        run="async def work(order, desk):\n    return {'title': order.name}\n",
    )
    file.with_name("rules.py").write_text(
        "def no_shouting(draft, order):\n    return 'it shouts' if draft.title.isupper() else None\n", encoding="utf-8"
    )
    hand.use(load_yaml(file))
    loud, quiet = (hand.submit("checked", {"name": name}).id for name in ("LOUD", "quiet"))
    hand.run_all()
    assert [draft_of(hand.house, task_id).passed for task_id in (loud, quiet)] == [False, True]
    assert draft_of(hand.house, loud).gates[0]["evidence"] == ["it shouts"]


def test_gates_are_steps_that_are_not_run_again(hand: Hand) -> None:
    """The leg ends after them, since the code sleeps; the next one takes what they found from the journal."""
    asked = []

    async def note(draft: Text, order: Any) -> bool:
        asked.append(draft.title)
        if len(asked) == 1:
            raise RetryLater("later")
        return True

    hand.have(echo, output=Text, gates=[{"length": {"max": 99}}, note, {"duplicate": {"max": 0.9}}])
    task_id = hand.submit("job", {"name": "a"}).id
    hand.settle()
    with hand.house.db.read() as conn:
        rows = conn.execute(sa.select(runs.c.step, runs.c.attempt).where(runs.c.task_id == task_id)).all()
    assert sorted(tuple(row) for row in rows) == [("gate note", 2), ("gates", 1)]
    assert [verdict["gate"] for verdict in draft_of(hand.house, task_id).gates] == ["length", "note", "duplicate"]


def test_gates_that_are_changed_under_a_half_done_task_are_the_ones_that_count(hand: Hand) -> None:
    async def later(draft: Text, order: Any) -> bool:
        raise RetryLater("later")

    async def now(draft: Text, order: Any) -> bool:
        return True

    now.__name__ = later.__name__
    hand.have(echo, output=Text, gates=[{"length": {"max": 99}}, later])
    task_id = hand.submit("job", {"name": "fine"}).id
    hand.step()
    hand.have(echo, output=Text, gates=["no_prompt_leak", {"length": {"max": 3}}, now])
    hand.settle()
    found = [(verdict["gate"], verdict["passed"]) for verdict in draft_of(hand.house, task_id).gates]
    assert found == [("no_prompt_leak", True), ("length", False), ("later", True)]
    assert hand.state(task_id) == "review"


def test_links_are_looked_at_once_and_only_where_allowed(hand: Hand) -> None:
    with served() as site:
        hand.egress = site.egress()
        gate = {"links": {"hosts": ["shop.example"]}}
        good = one(hand, f"see {site.url('/')}", gates=[gate])
        dead = one(hand, f"see {site.url('/missing')} and {site.url('/', 'evil.example')}", gates=[gate])
    assert (good["state"], dead["state"]) == ("done", "review")
    assert site.asked == ["/", "/missing"]
    [verdict] = draft_of(hand.house, dead["id"]).gates
    assert (verdict["value"], len(verdict["evidence"])) == ("0 of 2 links are good", 2)


def test_the_worlds_own_guard_keeps_a_draft_from_this_machine(hand: Hand) -> None:
    with served() as site:
        task = one(hand, f"see http://localhost:{site.port}/", gates=[{"links": {"hosts": ["localhost.example"]}}])
    assert (task["state"], site.asked) == ("review", [])


STORY = "once upon a time there was a very old harbour in which nobody had seen a ship for a hundred years "


def test_what_was_made_before_is_found_again(hand: Hand) -> None:
    gate = {"duplicate": {"field": "body", "max": 0.7}}
    first, same, other = (one(hand, name, gates=[gate]) for name in (STORY, STORY + "or so", "something else " * 9))
    assert [task["state"] for task in (first, same, other)] == ["done", "review", "done"]
    [verdict] = draft_of(hand.house, same["id"]).gates
    assert verdict["evidence"] == [f"90% is the same as in task {first['id']} (key {STORY})"]
    hand.submit("job", {"name": STORY}, tenant="another")
    hand.run_all()
    assert hand.task(hand.submit("job", {"name": STORY}, tenant="another").id)["state"] == "done"


def test_of_two_that_are_made_at_the_same_moment_the_later_is_told(sqlite_hand: Hand) -> None:
    """Both have passed the gate before either draft is kept."""
    met = asyncio.Barrier(2)

    async def meet(draft: Text, order: Any) -> None:
        await met.wait()

    sqlite_hand.have(echo, output=Text, gates=[{"duplicate": {"field": "body", "max": 0.7}}, meet])
    ids = [sqlite_hand.submit("job", {"name": name}).id for name in (STORY, STORY + "or so")]
    sqlite_hand.run_together(sqlite_hand.due())
    assert sorted(sqlite_hand.state(task_id) for task_id in ids) == ["done", "review"]
