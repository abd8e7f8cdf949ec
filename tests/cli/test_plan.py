"""`nightdesk plan`: what a night will do, and changing it, in a house whose night was cut off an hour ago."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightdesk.clock import SetClock
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit
from nightdesk.night.keeping import plan_due
from nightdesk.night.showing import show_plan
from tests.cli.conftest import Terminal
from tests.support.playbooks import write_yaml

_LINE = {"task", "playbook", "tenant", "priority", "lane", "worst_usd", "likely_usd", "review_minutes", "chosen", "why"}
_PLAYBOOK = """
    name: post
    input: {name: string}
    key: "{name}"
    model: anthropic:claude-haiku-4-5
    instructions: Write.
    budget: {task: 0.1}
    review: {minutes: 4}
"""


@pytest.fixture
def house(nightdesk: Terminal) -> Iterator[House]:
    """Three posts, money for two, and one post that came too late."""
    now = datetime.now(UTC)
    hours = {"cutoff": now - timedelta(hours=1), "start": now + timedelta(hours=3), "stop": now + timedelta(hours=7)}
    stated = "\n".join(f'{name} = "{moment:%H:%M}"' for name, moment in hours.items())
    settings = nightdesk.home / "nightdesk.toml"
    night = f'[night]\n{stated}\nreviewer_minutes = 60\n[budget]\nnight = "0.25"\n'
    settings.write_text(settings.read_text(encoding="utf-8") + night, encoding="utf-8")
    write_yaml(nightdesk.home, _PLAYBOOK, "post")
    earlier = open_house(nightdesk.home, clock=SetClock(now - timedelta(hours=2)))
    for name in ("first", "second", "third"):
        submit(earlier, Submission("post", {"name": name}))
    earlier.close()
    opened = open_house(nightdesk.home)
    submit(opened, Submission("post", {"name": "late"}))
    yield opened
    opened.close()


def test_before_it_is_made_it_shows_what_it_would_be(nightdesk: Terminal, house: House) -> None:
    plan = nightdesk("plan", "--json").json
    assert (plan["state"], plan["later"], plan["tasks"], plan["left_out"]) == ("", 1, 2, 1)
    assert all(set(item) == _LINE for item in plan["items"])
    first = plan["items"][0]
    assert (first["lane"], first["worst_usd"], first["review_minutes"]) == ("batch", "0.100000", 4)
    assert (plan["worst_usd"], plan["review_minutes"], plan["reviewer_minutes"]) == ("0.200000", 8, 60)
    plan_due(house)
    stored = nightdesk("plan", "--night", plan["night"], "--json").json
    assert stored == plan | {"state": "planned", "anyway": {}}


def test_people_see_sums_and_reasons(nightdesk: Terminal, house: House) -> None:
    said = nightdesk("plan", "--limit", "1")
    first, second, third = show_plan(house).items
    assert "now it would be this" in said.out
    assert "tasks   2, and 1 left out" in said.out
    assert "$0.20 at worst" in said.out
    assert "review  8 of 60 minutes" in said.out
    assert f"has too little left   1       {third.task}: $0.05 missing" in said.out
    assert first.task in said.out
    assert second.task not in said.out
    assert "These are the first 1" in said.err
    assert "1 of the tasks that are queued came after its cut-off" in said.err


def test_a_plan_is_changed(nightdesk: Terminal, house: House) -> None:
    plan_due(house)
    night = show_plan(house).night
    first, second, third = (item.task for item in show_plan(house).items)
    refused = nightdesk.refuses("plan", "keep", third)
    assert f"Task {third} cannot be kept: the budget of the night of" in refused
    assert "has too little left: $0.05 missing.\nDrop another task first: nightdesk plan drop TASK" in refused
    dropped = nightdesk("plan", "drop", first, "--json").json
    assert dropped == {"task": first, "night": night, "chosen": False}
    assert nightdesk("plan", "keep", third).out == f"{third} is in the night {night}.\n"
    assert {item.task for item in show_plan(house).items if item.chosen} == {second, third}


def test_a_night_that_nobody_knows_is_answered_with_the_nearest(nightdesk: Terminal, house: House) -> None:
    night = show_plan(house).night
    said = nightdesk.refuses("plan", "--night", f"{night[:-1]}x")
    assert f'There is no plan of a night "{night[:-1]}x"; did you mean "{night}"?' in said


def test_a_calendar_without_nights_has_no_plan(nightdesk: Terminal) -> None:
    settings = nightdesk.home / "nightdesk.toml"
    settings.write_text(f"{settings.read_text(encoding='utf-8')}\n[night]\ndays = []\n", encoding="utf-8")
    assert "There is no night to come." in nightdesk.refuses("plan")
    assert "There is no task nonsense." in nightdesk.refuses("plan", "drop", "nonsense")


def test_a_plan_is_seen_in_a_house_alone(tmp_path: Path) -> None:
    assert "There is no house in" in Terminal(tmp_path).refuses("plan", env={"NIGHTDESK_HOME": ""})
