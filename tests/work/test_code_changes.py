"""What happens when the code of a playbook changes under a half-done task: recorded, and as the docs say."""

from typing import Any

import pytest

from nightdesk.work import Desk
from nightdesk.work.insight import history
from nightdesk.work.tasks import answer
from tests.support.hand import Body, Hand


def steps(*names: str, given: str = "") -> Body:
    """A playbook of these steps that stops for a question before its end."""

    async def body(order: Any, desk: Desk) -> list[str]:
        done = [await desk.step(name, str.upper, name + given) for name in names]
        await desk.ask("go on?", ["yes"])
        return done

    return body


def divergences(hand: Hand, task: str) -> list[str]:
    rows = [row for row in history(hand.house, task) if row["kind"] == "divergence"]
    return [row["detail"]["what"] for row in rows]


def change(hand: Hand, before: Body, after: Body, **stated: Any) -> str:
    """Run the task with the code before until its question, then with the code after to its end."""
    hand.have(before, **stated)
    task = hand.submit("job", {"name": "a"}).id
    hand.run_all()
    hand.have(after, **stated)
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    return task


def test_unchanged_code_does_not_diverge(hand: Hand) -> None:
    task = change(hand, steps("a", "b"), steps("a", "b"))
    assert (hand.state(task), divergences(hand, task)) == ("done", [])


def test_steps_added_at_the_end_are_no_divergence(hand: Hand) -> None:
    async def longer(order: Any, desk: Desk) -> list[str]:
        done = await steps("a", "b")(order, desk)
        return [*done, await desk.step("c", str.upper, "c")]

    task = change(hand, steps("a", "b"), longer)
    assert (hand.task(task)["result"], divergences(hand, task)) == (["A", "B", "C"], [])


@pytest.mark.parametrize(
    ("after", "what", "result"),
    [
        (steps("a", "b", given="!"), ["input", "input"], ["A", "B"]),
        (steps("b", "a"), ["order"], ["B", "A"]),
        (steps("a", "new", "b"), ["order"], ["A", "NEW", "B"]),
        (steps("a"), ["order", "unused"], ["A"]),
    ],
)
def test_a_divergence_is_recorded_and_what_is_saved_stands(
    hand: Hand, after: Body, what: list[str], result: list[str]
) -> None:
    task = change(hand, steps("a", "b"), after)
    assert (hand.state(task), hand.task(task)["result"], divergences(hand, task)) == ("done", result, what)


def test_a_playbook_may_ask_for_a_person_instead(hand: Hand) -> None:
    task = change(hand, steps("a", "b"), steps("b", "a"), on_code_change="person")
    assert hand.state(task) == "review"
    assert "code has changed" in hand.task(task)["error"]["message"]


def test_a_divergence_is_told_once_however_often_it_is_met(hand: Hand) -> None:
    async def twice(order: Any, desk: Desk) -> None:
        await steps("b", "a")(order, desk)
        await desk.ask("and on?", ["yes"], name="second")

    task = change(hand, steps("a", "b"), twice)
    answer(hand.house, task, "yes", actor="me")
    hand.run_all()
    assert (hand.state(task), divergences(hand, task)) == ("done", ["order"])
