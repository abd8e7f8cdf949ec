"""Rehearsals: the user's own night on simulated providers, hours of it in seconds, and the house as it was before."""

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightdesk.clock import SetClock
from nightdesk.errors import Invalid, NightdeskError, NotFound
from nightdesk.guard.budgets import reserve, settle
from nightdesk.guard.purses import purse_of
from nightdesk.guard.switches import set_switch
from nightdesk.house import House, open_house
from nightdesk.intake import Submission, submit
from nightdesk.model.simulator import Simulator, running
from nightdesk.rehearsal import Outcome, Plan, read_fault, read_night, rehearse
from nightdesk.settings import NightSettings
from tests.conftest import make_house_folder
from tests.model.asking import START
from tests.support.playbooks import write_python, write_yaml

LABEL = """
name: label
when: night
risk: internal
key: "{herb}"
input: {herb: string}
output: {front: string, back: string}
model: {use: anthropic:claude-haiku-4-5, fallback: openai:gpt-5-mini}
limits: {tokens: 400}
instructions: Write the label for a jar of this herb.
"""
OPENS = datetime(2026, 12, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path, sqlite_url: str) -> Path:
    home = make_house_folder(tmp_path / "house", sqlite_url)
    write_yaml(home, LABEL, folder="label")
    return home


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    """At ten in the evening; nobody has opened it before the test has written its playbooks and settings."""
    opened = open_house(folder, clock=SetClock(START))
    yield opened
    opened.close()


def _add(house: House, *names: str, playbook: str = "label", **fields: Any) -> None:
    for name in names:
        house.clock.advance(1)  # type: ignore[attr-defined] # it is a SetClock
        submit(house, Submission(playbook, {"herb": name}, **fields))


def _rehearsed(house: House, tmp_path: Path, *faults: str, **plan: Any) -> Outcome:
    (tmp_path / "rehearsal").mkdir(exist_ok=True)
    start = read_night("tonight", house.settings.night, house.clock.now())
    planned = Plan(start, faults=[read_fault(stated) for stated in faults], **plan)
    return rehearse(house, planned, tmp_path / "rehearsal", lambda ended, total, at: None)


def _state_of(folder: Path) -> dict[str, str]:
    """A digest of every file of the house, its database included."""
    files = [*folder.rglob("*"), folder.parent / "nightdesk.db"]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}


def test_a_night_of_hours_takes_seconds_and_leaves_the_house_as_it_was(house: House, tmp_path: Path) -> None:
    _add(house, "thyme", "sage", "lovage")
    before, variables = _state_of(house.home), dict(os.environ)
    outcome = _rehearsed(house, tmp_path)
    assert (_state_of(house.home), dict(os.environ)) == (before, variables)
    assert (outcome.tasks, outcome.calls, outcome.batches) == ({"done": 3}, {"batch": 2, "live": 1}, 1)
    assert (outcome.paid_twice, outcome.incidents, outcome.not_done) == (0, [], [])
    assert outcome.started_at == OPENS
    assert timedelta(minutes=45) <= outcome.ended_at - outcome.started_at <= timedelta(minutes=50)
    assert outcome.seconds < 60
    assert outcome.saved_usd > 0
    assert outcome.as_json()["live_cost_usd"] == outcome.cost_usd + outcome.saved_usd


def test_a_batch_that_is_stuck_is_called_back_and_the_desk_is_full(house: House, tmp_path: Path) -> None:
    _add(house, "thyme", "sage")
    outcome = _rehearsed(house, tmp_path, "stuck")
    assert (outcome.tasks, outcome.paid_twice) == ({"done": 2}, 0)
    assert outcome.incidents == ["04:40 last_call: last call: it was called back from the batch lane"]
    assert OPENS + timedelta(hours=3, minutes=40) <= outcome.ended_at <= OPENS + timedelta(hours=4)


def test_a_provider_that_is_down_is_left_for_the_fallback(house: House, tmp_path: Path) -> None:
    _add(house, *"abcdef", priority=1)
    outcome = _rehearsed(house, tmp_path, "status:anthropic")
    assert outcome.tasks == {"done": 6}
    assert [incident[6:] for incident in outcome.incidents] == [
        next(incident[6:] for incident in outcome.incidents if incident.startswith("01:00 breaker open: HTTP 500"))
    ]


def test_refused_keys_hold_up_the_night_and_it_says_so(house: House, tmp_path: Path) -> None:
    _add(house, "thyme", "sage")
    outcome = _rehearsed(house, tmp_path, "auth")
    assert outcome.tasks == {"waiting:breaker": 2}
    assert [task["state"] for task in outcome.not_done] == ["waiting", "waiting"]
    assert all("401" in str(task["why"]) for task in outcome.not_done)
    assert outcome.cost_usd == 0


def test_requests_that_hang_cost_time_by_the_clock_alone(house: House, tmp_path: Path) -> None:
    _add(house, "thyme", priority=1)
    outcome = _rehearsed(house, tmp_path, "hang*2")
    assert outcome.tasks == {"done": 1}
    assert outcome.ended_at - outcome.started_at >= timedelta(seconds=2 * house.settings.model.timeout_seconds)
    assert outcome.seconds < 60


def test_the_budgets_hold_and_what_was_spent_today_counts(folder: Path, tmp_path: Path) -> None:
    (folder / "nightdesk.toml").write_text(
        (folder / "nightdesk.toml").read_text(encoding="utf-8") + '\n[budget]\nday = "1.00"\nnight = "0.0085"\n',
        encoding="utf-8",
    )
    house = open_house(folder, clock=SetClock(START))
    try:
        _add(house, *"abcde", priority=2)
        purse = purse_of(house.settings, START, "night")
        with house.db.write() as conn:
            reserve(house.db, conn, START, [purse], 6_000)
            settle(house.db, conn, START, [purse.key], 6_000, 6_000)
        outcome = _rehearsed(house, tmp_path)
    finally:
        house.close()
    assert (outcome.tasks, outcome.cost_usd) == ({"waiting:budget": 5}, Decimal(0))
    told = "01:00 budget asked: The budget of the night of 2026-11-30 is $0.0085: $0.006 is spent and $0.00 reserved, "
    assert [incident.startswith(told) for incident in outcome.incidents] == [True]


CODE = """
    import asyncio
    import os
    from pathlib import Path

    from openai import AsyncOpenAI

    from nightdesk import playbook

    RULES = (Path(__file__).parent / "rules.txt").read_text()


    @playbook("agent", when="night", input={"herb": "string"}, output={"text": "string"}, key="{herb}",
              risk="internal", lane="live")
    async def agent(order, desk):
        client = AsyncOpenAI(http_client=desk.http_client())
        texts = [await desk.step(f"turn-{number}", turn, client, order.herb, number) for number in range(5)]
        return {"text": texts[-1]}


    async def turn(client, herb, number):
        answer = await client.responses.create(model="gpt-5-mini", input=f"{RULES} {herb}, turn {number}")
        return answer.output_text


    @playbook("stray", when="night", input={"herb": "string"}, output={"text": "string"}, key="{herb}",
              risk="internal", lane="live", limits={"retries": 0})
    async def stray(order, desk):
        client = AsyncOpenAI(http_client=desk.http_client(), base_url=os.environ["ELSEWHERE"] + "/v1")
        answer = await client.responses.create(model="gpt-5-mini", input="To whom is this sent?")
        return {"text": answer.output_text}
"""


@pytest.fixture
def coded(folder: Path) -> Iterator[House]:
    """A house whose playbooks are code, with a file beside them."""
    write_python(folder, CODE, name="agents.py")
    (folder / "playbooks" / "rules.txt").write_text("Be brief.", encoding="utf-8")
    opened = open_house(folder, clock=SetClock(START))
    yield opened
    opened.close()


def test_an_agent_of_ones_own_code_takes_the_time_of_its_turns(coded: House, tmp_path: Path) -> None:
    _add(coded, "thyme", "sage", playbook="agent")
    outcome = _rehearsed(coded, tmp_path, latency=30.0)
    assert (outcome.tasks, outcome.calls) == ({"done": 2}, {"live": 10})
    assert outcome.ended_at - outcome.started_at == timedelta(seconds=150)


def test_nothing_is_asked_of_anyone_else(coded: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Simulator()) as elsewhere:
        monkeypatch.setenv("ELSEWHERE", elsewhere.url)
        monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
        _add(coded, "thyme", playbook="stray")
        _add(coded, "sage")
        outcome = _rehearsed(coded, tmp_path)
        assert elsewhere.simulator.report()["executions"] == 0
    assert outcome.tasks == {"dead": 1, "done": 1}
    assert "a rehearsal asks nobody but the simulator" in str(outcome.not_done[0]["why"])


def test_tasks_are_chosen_by_playbook_urgency_and_time(coded: House, tmp_path: Path) -> None:
    _add(coded, "late", not_before=OPENS + timedelta(hours=9))
    _add(coded, "plain")
    _add(coded, "urgent", priority=0)
    _add(coded, "other", playbook="agent")
    outcome = _rehearsed(coded, tmp_path, playbook="label", most=2)
    assert outcome.tasks == {"done": 1, "queued": 1}
    assert [task["key"] for task in outcome.not_done] == ["late"]


def test_what_is_switched_off_stays_off(house: House, tmp_path: Path) -> None:
    _add(house, "thyme")
    set_switch(house.db, house.clock, mode="pause", why="new prices", actor="test")
    outcome = _rehearsed(house, tmp_path)
    assert outcome.tasks == {"waiting:switch": 1}
    assert outcome.not_done[0]["why"] == "switched off: new prices"


def test_what_cannot_be_rehearsed_is_refused(house: House, tmp_path: Path) -> None:
    with pytest.raises(NightdeskError, match="Nothing is open that could be rehearsed"):
        _rehearsed(house, tmp_path)
    _add(house, "thyme")
    (tmp_path / "rehearsal" / "nightdesk.db").unlink()
    with pytest.raises(NotFound, match='did you mean "label"'):
        _rehearsed(house, tmp_path, playbook="lable")


BERLIN = NightSettings(zone="Europe/Berlin", start="01:00", stop="05:00")
EVENING = NightSettings(zone="Europe/Berlin", start="22:30", stop="04:00")


@pytest.mark.parametrize(
    ("stated", "night", "opens"),
    [
        ("tonight", BERLIN, datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
        ("2026-11-30", BERLIN, datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
        ("2026-11-30", EVENING, datetime(2026, 11, 30, 22, 0, tzinfo=UTC)),  # it has been open for half an hour
        ("2027-06-30", EVENING, datetime(2027, 6, 30, 20, 30, tzinfo=UTC)),
    ],
)
def test_a_night_is_named_by_the_date_of_its_evening(stated: str, night: NightSettings, opens: datetime) -> None:
    assert read_night(stated, night, START) == opens


@pytest.mark.parametrize(
    ("stated", "fault"),
    [("2026-11-29", "has passed"), ("tomorrow", "is neither a date"), ("2026-13-01", "is neither a date")],
)
def test_a_night_that_is_none_is_refused(stated: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        read_night(stated, BERLIN, START)


def test_a_fault_has_a_kind_and_perhaps_a_provider_and_a_number() -> None:
    assert (read_fault("stuck").provider, read_fault("stuck").times) == ("", None)
    assert (read_fault("status:openai*5").provider, read_fault("status:openai*5").times) == ("openai", 5)
    assert read_fault("hang*2").times == 2


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ("stuk", 'did you mean "stuck"'),
        ("status:antropic", 'did you mean "anthropic"'),
        ("status*0", "is none"),
        ("create_hang", "create_lost"),
        ("", "known are"),
    ],
)
def test_a_fault_that_is_none_is_refused(stated: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        read_fault(stated)
