"""A rehearsal plans and opens its night as any other: the house's own work of the night, against simulated models."""

from pathlib import Path

from nightdesk.clock import SetClock
from nightdesk.house import open_house
from nightdesk.intake import Submission, submit
from nightdesk.model.simulator import Fault
from nightdesk.rehearsal import Plan, read_night, rehearse
from nightdesk.work.insight import count_states
from tests.conftest import make_house_folder
from tests.night.keeper import NOON
from tests.support.playbooks import write_python

_PLAYBOOKS = """
    from anthropic import AsyncAnthropic
    from nightdesk import playbook


    @playbook("job", input={"name": "string"}, key="{name}", when="night", output={"text": "string"})
    async def job(order, desk):
        client = AsyncAnthropic(http_client=desk.http_client())
        said = [{"role": "user", "content": f"Write about {order.name}."}]
        message = await client.messages.create(model="claude-haiku-4-5", max_tokens=200, messages=said)
        return {"text": message.content[0].text}


    @playbook("report", input={"name": "string"}, key="{name}", when={"after": "job"}, risk="internal")
    async def report(order, desk):
        return None
"""


def test_the_work_of_the_night_is_rehearsed(tmp_path: Path, sqlite_url: str) -> None:
    home = make_house_folder(tmp_path / "house", sqlite_url)
    write_python(home, _PLAYBOOKS)
    house = open_house(home, clock=SetClock(NOON))
    for name in ("a", "b", "c"):
        submit(house, Submission("job", {"name": name}))
    submit(house, Submission("report", {"name": "r"}))
    window = read_night("tonight", house.settings.night, house.clock.now())
    folder = tmp_path / "copy"
    folder.mkdir()
    outcome = rehearse(
        house, Plan(window, batch_seconds=120, faults=[Fault("status", times=1)]), folder, lambda *_: None
    )
    assert (outcome.tasks, outcome.paid_twice) == ({"review": 3, "done": 1}, 0)
    assert (outcome.started_at, outcome.ended_at < window.stop) == (window.start, True)
    nights = [incident for incident in outcome.incidents if " night " in incident]
    assert [incident.split()[2].rstrip(":") for incident in nights] == ["planned", "open", "closing", "closed"]
    assert count_states(house) == {"queued": 4}
    house.close()


def test_what_the_plan_leaves_out_says_why(tmp_path: Path, sqlite_url: str) -> None:
    home = make_house_folder(tmp_path / "house", sqlite_url)
    write_python(home, _PLAYBOOKS)
    settings = home / "nightdesk.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + "[night]\nreviewer_minutes = 0\n", encoding="utf-8")
    house = open_house(home, clock=SetClock(NOON))
    task_id = submit(house, Submission("job", {"name": "a"})).id
    folder = tmp_path / "copy"
    folder.mkdir()
    plan = Plan(read_night("2026-12-14", house.settings.night, NOON))
    outcome = rehearse(house, plan, folder, lambda *_: None)
    assert outcome.started_at.isoformat() == "2026-12-15T01:00:00+00:00"
    [left] = outcome.not_done
    assert (left["id"], left["state"]) == (task_id, "queued")
    assert "reviewers" in str(left["why"])
    house.close()
