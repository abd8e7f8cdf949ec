"""What an approver sees: everything that a decision rests on, and what nobody could see written out."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from nightdesk.review.asked import Actor
from nightdesk.review.hidden import hidden_in, shown
from nightdesk.work import Desk
from tests.review.morning import TERMINAL, Morning, token

CLAIMS = {"claims": [{"claim": "string", "source": "string"}], "body": "string"}
FACTS = [
    {"fact": "it boils a litre in two minutes", "source": "https://lab.example/kettle"},
    {"fact": "it is of steel", "source": "the maker"},
]
GATES = [{"sources": {"claims": "claims", "among": "facts.source"}}, {"length": {"field": "body", "max": 5}}]
STATED: dict[str, Any] = {
    "input": {"name": "string", "visits": "int", "facts": [{"fact": "string", "source": "string"}]},
    "output": CLAIMS,
    "gates": GATES,
    "review": {
        "minutes": 2,
        "checklist": ["keeps every claim true"],
        "reasons": ["off brand"],
        "impact": "about {visits} visits a week",
        "decide_by": "12:00",
    },
    "release": {"to": "wordpress", "slug": "{name}"},
}


async def claim(order: Any, _desk: Desk) -> Any:
    made = [
        {"claim": "quick", "source": "https://lab.example/kettle"},
        {"claim": "healthy", "source": "a friend"},
    ]
    return {"claims": made, "body": f"plain\u202e{order.name}\u200b"}


@pytest.fixture
def claimed(quick_morning: Morning) -> tuple[Morning, str]:
    quick_morning.have(claim, **({"risk": "customer"} | STATED))
    item = quick_morning.submit("job", {"name": "kettle", "visits": 1240, "facts": FACTS}).id
    quick_morning.run_all()
    return quick_morning, item


def test_it_has_all_that_a_decision_rests_on(claimed: tuple[Morning, str]) -> None:
    morning, item = claimed
    card = morning.card(item, TERMINAL)
    assert card["sentence"] == "Publish “Job: kettle” to wordpress, kettle"
    assert (card["risk"], card["risk_reason"]) == ("customer", "customers see it")
    assert card["why_here"].startswith("sources: 1, where a source for each of 2 claims is asked for")
    assert card["why_here"].endswith("and 1 more")
    assert (card["impact"], card["rollback"]) == (
        "about 1240 visits a week", "it can be undone until it is released; after that with: nightdesk release undo"
    )  # fmt: skip
    assert (card["deadline"], card["at_deadline"]) == ("2026-02-01T12:00:00Z", "otherwise held to the next morning")
    assert [(gate["gate"], gate["passed"]) for gate in card["gates"]] == [("sources", False), ("length", False)]
    assert card["gates"][0]["evidence"] == ["claims[1] has a source that the input does not: a friend"]
    assert (card["checklist"], card["reasons"]) == (["keeps every claim true"], ["off brand"])
    assert card["provenance"] | {"playbook_version": ""} == {
        "playbook": "job", "playbook_version": "", "models": [], "attempt": 1, "cost_usd": "0.000000",
        "laid_at": "2026-01-31T22:00:00Z",
    }  # fmt: skip
    assert (card["may_not"], card["awaits"], card["outcome"], card["changed"]) == (None, None, None, None)
    assert card["verbs"] == ["approve", "edit", "send_back", "reject", "later"]


def test_claims_stand_beside_their_sources(claimed: tuple[Morning, str]) -> None:
    morning, item = claimed
    supported, other = morning.card(item)["evidence"]
    assert supported == {
        "claim": "quick",
        "sources": ["https://lab.example/kettle"],
        "snippets": ["it boils a litre in two minutes"],
        "links": ["https://lab.example/kettle"],
        "supported": True,
        "wants": "",
    }
    assert (other["claim"], other["supported"], other["snippets"]) == ("healthy", False, [])


def test_what_nobody_sees_is_named(claimed: tuple[Morning, str]) -> None:
    morning, item = claimed
    assert morning.card(item)["hidden"] == [
        {"place": "body", "characters": ["U+202E RIGHT-TO-LEFT OVERRIDE", "U+200B ZERO WIDTH SPACE"]}
    ]


@pytest.mark.parametrize(
    ("release", "risk", "sentence", "rollback"),
    [
        (None, "customer", "Accept “Job: kettle”; nothing of it leaves the house", "nothing leaves the house"),
        ({"to": "smtp"}, "reversible", "Mail “Job: kettle” to smtp", "what is sent cannot be called back"),
        ({"to": "folder", "path": "x/{visits}.txt"}, "irreversible", "Write “Job: kettle” to folder, x/1240", "irrev"),
        ({"to": "matrix"}, "customer", "Release “Job: kettle” to matrix", "until it is released"),
    ],
)
def test_it_says_what_is_decided_and_whether_that_can_be_taken_back(
    quick_morning: Morning, release: Any, risk: str, sentence: str, rollback: str
) -> None:
    quick_morning.have(claim, **(STATED | {"release": release, "risk": risk, "key": "{name}"}))
    item = quick_morning.submit("job", {"name": "kettle", "visits": 1240, "facts": FACTS}).id
    quick_morning.run_all()
    card = quick_morning.card(item)
    assert card["sentence"].startswith(sentence)
    assert rollback in card["rollback"]


def test_it_tells_who_may_not_approve_it(quick_morning: Morning) -> None:
    item = quick_morning.one("payout")
    low = token()
    assert "up to customer; this is irreversible" in quick_morning.card(item, low)["may_not"]
    reader = Actor("user:r", "r", "auditor", "irreversible", "web", "session", frozenset({"read"}))
    assert "the right to review" in quick_morning.card(item, reader)["may_not"]
    assert quick_morning.card(item, TERMINAL)["may_not"] is None


def test_once_decided_it_says_so(quick_morning: Morning) -> None:
    item = quick_morning.one()
    quick_morning.decide(item, "approve", TERMINAL, note="fine")
    card = quick_morning.card(item)
    assert (card["state"], card["verbs"]) == ("approved", ["undo"])
    outcome = card["outcome"]
    assert (outcome["verb"], outcome["actor"], outcome["note"], outcome["can_undo"]) == (
        "approve", "cli:test", "fine", True
    )  # fmt: skip
    assert [(row["verb"], row["actor"]) for row in card["history"]] == [("approve", "cli:test")]


def test_to_look_changes_nothing(quick_morning: Morning) -> None:
    item = quick_morning.one()
    before = quick_morning.rows_of_everything()
    quick_morning.card(item, TERMINAL)
    quick_morning.listed()
    assert quick_morning.rows_of_everything() == before


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text,\nsecond\tline", "plain text,\nsecond\tline"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("x\U000e0041\U000e007f", "x⟨U+E0041⟩⟨U+E007F⟩"),
        ("a\ufe0fb\U000e0100", "a⟨U+FE0F⟩b⟨U+E0100⟩"),
        ("pay\u00adpal \u3164 \u2800", "pay⟨U+00AD⟩pal ⟨U+3164⟩ ⟨U+2800⟩"),
        ("nul\x00 bell\x07", "nul⟨U+0000⟩ bell⟨U+0007⟩"),
        ("naïve Ж 漢字 “x” é", "naïve Ж 漢字 “x” é"),
        ("\u2764\ufe0f \U0001f469\u200d\U0001f680", "\u2764\ufe0f \U0001f469\u200d\U0001f680"),
    ],
)
def test_unseen_characters_are_written_out(text: str, seen: str) -> None:
    assert shown(text) == seen
    assert bool(list(hidden_in({"a": [text]}))) is (text != seen)


@settings(deadline=None)
@given(st.text())
def test_nothing_unseen_is_left_and_nothing_seen_is_lost(text: str) -> None:
    """B6: what is shown has no tag, no selector, no zero width; taking the marks out gives the text again."""
    told = shown(text)
    assert [shown(letter) for letter in told if letter not in "\u200d\ufe0e\ufe0f"] == [
        letter for letter in told if letter not in "\u200d\ufe0e\ufe0f"
    ]
    if "⟨" not in text:
        assert _back(told) == text


def _back(told: str) -> str:
    head, *rest = told.split("⟨U+")
    return head + "".join(chr(int(part.partition("⟩")[0], 16)) + part.partition("⟩")[2] for part in rest)
