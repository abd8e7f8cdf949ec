"""The judge, and drafts that go back to the model: asked over the task's own transport, and paid like its work."""

from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.guard.caps import raise_cap
from nightdesk.guard.purses import purse_of
from nightdesk.playbook.registry import load_yaml
from nightdesk.store import drafts, runs
from nightdesk.work.insight import history
from tests.model.asking import CLAUDE, GPT, AskingHouse
from tests.support.playbooks import write_yaml

YAML = """\
    name: story
    when: now
    risk: internal
    key: "{name}"
    input: {name: string, score: int, criterion: int}
    output: {title: string}
    model: %s
    lane: %s
    budget: {task: %s}
    limits: {redrafts: %s, retries: 0}
    instructions: Give it a title.
    gates:
      - length: {field: title, max: 500}
      %s
    """
JUDGE = "- judge: {criteria: [it is short], min: 0.7}"


def open_story(
    asking: AskingHouse, gates: str = JUDGE, *, lane: str = "live", cap: str = "1.00", redrafts: int = 0
) -> None:
    asking.use(load_yaml(write_yaml(asking.house.home, YAML % (CLAUDE, lane, cap, redrafts, gates))))


def tell(asking: AskingHouse, name: str = "a", score: int = 9, criterion: int = 1) -> dict[str, Any]:
    """The simulated judge gives the score and the number of the criterion that it finds in the input."""
    task_id = asking.submit("story", {"name": name, "score": score, "criterion": criterion}).id
    asking.settle()
    return asking.task(task_id)


def verdicts(asking: AskingHouse, task: dict[str, Any]) -> list[dict[str, Any]]:
    with asking.house.db.read() as conn:
        found: list[dict[str, Any]] = conn.execute(
            sa.select(drafts.c.gates).where(drafts.c.task_id == task["id"])
        ).scalar_one()
    return found


def test_a_judge_is_asked_by_itself_and_paid_like_the_rest(asking_anywhere: AskingHouse) -> None:
    open_story(asking_anywhere)
    task = tell(asking_anywhere)
    work, judging = asking_anywhere.calls(task["id"])
    assert task["state"] == "done"
    assert verdicts(asking_anywhere, task)[1] | {"evidence": []} == {
        "gate": "judge", "field": "", "passed": True, "value": 0.9, "threshold": "at least 0.7 in each of 1 criteria",
        "evidence": [],
    }  # fmt: skip
    assert "Give it a title" in str(work.request)
    assert "Give it a title" not in str(judging.request)
    assert "You judge one draft" in str(judging.request)
    assert task["cost_usd"] == format(work.cost_usd + judging.cost_usd, "f")
    assert judging.cost_usd > 0


def test_a_low_score_sends_the_draft_to_a_person_with_the_reason(asking: AskingHouse) -> None:
    open_story(asking)
    task = tell(asking, score=3)
    [_, verdict] = verdicts(asking, task)
    assert (task["state"], verdict["passed"], verdict["value"]) == ("review", False, 0.3)
    assert verdict["evidence"][0].startswith("it is short: 0.3, ")


def test_a_criterion_that_the_judge_passes_over_is_not_met(asking: AskingHouse) -> None:
    open_story(asking)
    task = tell(asking, criterion=7)
    assert verdicts(asking, task)[1]["evidence"] == ["it is short: the judge gave no score"]
    assert task["state"] == "review"


def test_a_judge_can_be_another_model(asking: AskingHouse) -> None:
    open_story(asking, "- judge: {criteria: [it is short], model: '%s'}" % GPT)  # noqa: UP031
    task = tell(asking)
    assert [call.provider for call in asking.calls(task["id"])] == ["anthropic", "openai"]
    assert task["state"] == "done"


def test_judges_wait_for_their_wave_and_nothing_is_paid_twice(asking: AskingHouse) -> None:
    """Two judges of one draft are asked in one wave; the work before them is not done again."""
    asking.set(waves={"canary": False})
    open_story(asking, JUDGE + "\n      " + JUDGE.replace("short", "sweet"), lane="batch")
    task = tell(asking)
    assert [call.lane for call in asking.calls(task["id"])] == ["batch"] * 3
    assert len({call.batch_id for call in asking.calls(task["id"])}) == 2
    assert (asking.meter()["executions"], asking.meter()["repeated"]) == (3, 0)
    assert (task["state"], asking.divergences()) == ("done", [])
    with asking.house.db.read() as conn:
        steps = conn.execute(sa.select(runs.c.step, runs.c.attempt).where(runs.c.task_id == task["id"])).all()
    assert [tuple(step) for step in steps] == [("gates", 1)]


def test_a_judge_that_the_task_cannot_pay_waits_for_money_and_the_draft_with_it(asking: AskingHouse) -> None:
    open_story(asking, cap="0.3215")
    task_id = asking.submit("story", {"name": "a", "score": 9, "criterion": 1}).id
    asking.settle()
    assert asking.state(task_id) == "waiting:budget"
    assert [call.status for call in asking.calls(task_id)] == ["done"]
    purse = purse_of(asking.house.settings, asking.clock.now(), "task", task_id, Decimal("0.3215"))
    raise_cap(asking.house.db, asking.clock, purse, Decimal(1), why="for the judge", actor="test")
    asking.settle()
    assert asking.state(task_id) == "done"
    assert (asking.meter()["executions"], asking.meter()["repeated"]) == (2, 0)


TWICE = "- required: {field: title, phrases: ['[simulated] [simulated]']}"


def test_what_fails_goes_back_to_the_model_with_the_finding(asking_anywhere: AskingHouse) -> None:
    """The simulated model takes the last draft as it was, and marks it once more."""
    open_story(asking_anywhere, TWICE, redrafts=1)
    task = tell(asking_anywhere)
    first, second = asking_anywhere.calls(task["id"])
    assert (task["state"], task["result"]["title"].count("[simulated]")) == ("done", 2)
    assert "It was not accepted" not in str(first.request)
    assert "required of title: 0, where all of 1 phrases is asked for" in str(second.request)
    assert "it does not say: [simulated] [simulated]" in str(second.request)


def test_it_goes_back_as_often_as_the_playbook_says_and_then_to_a_person(asking: AskingHouse) -> None:
    open_story(asking, "- required: {phrases: ['never said, ever']}", redrafts=2)
    task = tell(asking)
    assert (task["state"], len(asking.calls(task["id"]))) == ("review", 3)
    assert history(asking.house, task["id"])[-1]["detail"] == {"gates": ["required"]}
    assert [step["step"] for step in task["steps"]] == ["gates", "gates", "gates"]


def test_without_redrafts_a_person_sees_the_first(asking: AskingHouse) -> None:
    open_story(asking, TWICE)
    task = tell(asking)
    assert (task["state"], len(asking.calls(task["id"]))) == ("review", 1)


def test_a_draft_that_passes_is_not_drafted_again(asking: AskingHouse) -> None:
    open_story(asking, "- no_prompt_leak", redrafts=3)
    assert len(asking.calls(tell(asking)["id"])) == 1


def test_redrafts_go_through_batches_too_and_survive_every_wait(asking: AskingHouse) -> None:
    asking.set(waves={"canary": False})
    open_story(asking, TWICE, lane="batch", redrafts=1)
    task = tell(asking)
    assert (task["state"], asking.meter()["repeated"], asking.divergences()) == ("done", 0, [])
    assert [call.lane for call in asking.calls(task["id"])] == ["batch", "batch"]


@pytest.mark.parametrize("letters", ["Straße 三徳 €", '\\u0041 "quoted"'])
def test_the_input_is_told_in_its_own_letters(asking: AskingHouse, letters: str) -> None:
    open_story(asking, "- no_prompt_leak")
    [call] = asking.calls(tell(asking, name=letters)["id"])
    told = call.request["messages"][0]["content"]
    text = told if isinstance(told, str) else told[0]["text"]
    assert letters.replace("\\", "\\\\").replace('"', '\\"') in text
