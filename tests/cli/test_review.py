"""The desk at the terminal: the same list and the same verbs."""

from collections.abc import Iterator

import pytest

from nightdesk.clock import SystemClock
from nightdesk.house import open_house
from tests.cli.conftest import Terminal
from tests.review.morning import Morning
from tests.support.playbooks import write_python

PLAYBOOKS = """
from nightdesk.playbook import playbook

@playbook("listing", title="Listings", input={"name": "string"}, output={"title": "string"}, key="{name}", when="now",
          risk="customer", review={"minutes": 2})
async def listing(order, desk):
    return {"title": order.name + (" again" if desk.sent_back else "")}
"""


@pytest.fixture
def laid(nightdesk: Terminal) -> Iterator[Morning]:
    """A house with drafts of listings on its desk."""
    write_python(nightdesk.home, PLAYBOOKS)
    house = open_house(nightdesk.home)
    yield Morning(house, SystemClock())  # type: ignore[arg-type] # nothing moves this one
    house.close()


def test_the_morning_at_the_terminal(nightdesk: Terminal, laid: Morning) -> None:
    kettle, toaster = laid.lay("listing", "kettle", "toaster\u202e")
    page = nightdesk("review", "list", "--json").json
    assert {item["id"] for item in page["items"]} == {kettle, toaster}
    told = nightdesk("review", "list", "--risk", "customer")
    assert "Listings" in told.out
    assert "2 of 2 drafts are left, about 4 minutes." in told.err
    shown = nightdesk("review", "show", toaster)
    assert "toaster⟨U+202E⟩" in shown.out
    assert "customers see it" in shown.out
    approved = nightdesk("review", "approve", kettle, "--note", "fine")
    assert (approved.out, approved.err) == (
        f"{kettle} approved\n", f"To take it back: nightdesk review undo {kettle}\n"
    )  # fmt: skip
    assert "has decided: approve." in nightdesk.refuses("review", "reject", kettle)
    assert nightdesk("review", "undo", kettle, "--json").json["state"] == "review"
    edited = nightdesk("review", "edit", kettle, '{"title": "Kettle"}', "--reason", "off brand", "--json").json
    assert edited["diff"] == [{"path": "title", "before": "kettle", "after": "Kettle"}]
    assert nightdesk("review", "later", toaster, "--until", "tomorrow").out == f"{toaster} review\n"
    assert nightdesk("review", "send-back", toaster, "--note", "once more").out == f"{toaster} queued\n"
    [row] = [row for row in laid.decisions(toaster) if row["verb"] == "send_back"]
    assert (row["channel"], row["assurance"], row["note"], row["actor"][:4]) == (
        "terminal",
        "terminal",
        "once more",
        "cli:",
    )


def test_what_is_wrong_is_said_in_a_line(nightdesk: Terminal, laid: Morning) -> None:
    item = laid.one("listing")
    assert "known are budget, question, draft" in nightdesk.refuses("review", "list", "--kind", "x")
    assert 'edits.titel: is no field of the draft; did you mean "title"' in nightdesk.refuses(
        "review", "edit", item, '{"titel": "x"}'
    )
    assert "changed since" in nightdesk.refuses("review", "approve", item, "--hash", "0" * 64)
    assert laid.state(item) == "review"
