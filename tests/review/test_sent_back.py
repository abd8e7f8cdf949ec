"""What was sent back is done again by a model that is told why."""

from typing import Any

import sqlalchemy as sa

from nightdesk.playbook.registry import load_yaml
from nightdesk.review.asked import Asked
from nightdesk.review.cards import find
from nightdesk.review.decisions import decide
from nightdesk.store import events, tasks
from tests.model.asking import CLAUDE, AskingHouse
from tests.review.morning import TERMINAL
from tests.support.playbooks import write_yaml

YAML = f"""\
    name: story
    title: Stories
    when: now
    risk: customer
    key: "{{name}}"
    input: {{name: string}}
    output: {{title: string}}
    model: {CLAUDE}
    lane: live
    instructions: Give it a title.
    """


def said_to_model(asking: AskingHouse, task_id: str) -> list[tuple[int, str]]:
    """The version and the prompt of every call."""
    return [(call.version, str(call.request["messages"])) for call in asking.calls(task_id)]


def send_back(asking: AskingHouse, item: str, **said: Any) -> None:
    decide(asking.house, Asked(item, "send_back", find(asking.house, item)["hash"], TERMINAL, **said))
    asking.pass_time(90)
    asking.settle()


def test_the_model_is_told_what_the_person_said(asking: AskingHouse) -> None:
    asking.use(load_yaml(write_yaml(asking.house.home, YAML)))
    item = asking.submit("story", {"name": "a"}).id
    asking.settle()
    first = find(asking.house, item)
    send_back(asking, item, reason="off brand", note="no “jokes”")
    prompts = said_to_model(asking, item)
    assert [version for version, _ in prompts] == [1, 2]
    assert "sent it back" not in prompts[0][1]
    assert "off brand: no “jokes”" in prompts[1][1]
    assert first["payload"]["title"] in prompts[1][1]
    card = find(asking.house, item)
    assert (card["version"], card["provenance"]["models"], card["provenance"]["attempt"]) == (2, [CLAUDE[10:]], 2)
    send_back(asking, item, note="shorter")
    prompts = said_to_model(asking, item)
    assert len(prompts) == 3
    assert "shorter" in prompts[2][1]
    assert "off brand" not in prompts[2][1]
    with asking.house.db.read() as conn:
        assert conn.execute(sa.select(events.c.id).where(events.c.kind == "divergence")).first() is None


def test_the_next_version_is_done_by_the_playbook_as_it_is_then(asking: AskingHouse) -> None:
    file = write_yaml(asking.house.home, YAML)
    asking.use(load_yaml(file))
    item = asking.submit("story", {"name": "a"}).id
    asking.settle()
    old = find(asking.house, item)["provenance"]["playbook_version"]
    decide(asking.house, Asked(item, "send_back", find(asking.house, item)["hash"], TERMINAL, reason="x"))
    changed = load_yaml(write_yaml(asking.house.home, YAML.replace("Give it a title.", "Give it a good title.")))
    asking.use(changed)
    asking.pass_time(90)
    asking.settle()
    assert find(asking.house, item)["provenance"]["playbook_version"] == changed.version != old
    with asking.house.db.read() as conn:
        assert conn.execute(sa.select(tasks.c.version).where(tasks.c.id == item)).scalar_one() == 2
