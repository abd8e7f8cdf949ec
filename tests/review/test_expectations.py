"""What a golden case expects, held against what became of its task."""

from decimal import Decimal
from typing import Any

import pytest

from nightdesk.playbook.golden import Expect
from nightdesk.review.expectations import Ended, judged

DRAFT = {"title": "Merino Socks", "claims": [{"text": "warm", "count": 3}, {"text": "dry", "count": 9}], "none": None}


def unmet(
    expect: dict[str, Any], state: str = "review", draft: Any = DRAFT, failing: tuple[str, ...] = ()
) -> list[str]:
    findings = [(name, f"{name}: too bad") for name in failing]
    ended = Ended(state, "the last word", draft, findings, Decimal(0), 1.0)
    found = judged(Expect.model_validate(expect), ended, "review")
    return [f"{name}: {reason}" for name, reason in found if reason]


@pytest.mark.parametrize(
    ("expect", "reasons"),
    [
        ({}, []),
        ({"contains": {"title": "merino"}}, []),
        ({"contains": {"title": ["merino", "wool"]}}, ["title contains: it lacks: wool"]),
        ({"contains": {"claims.text": ["warm", "dry"]}}, []),
        ({"lacks": {"title": "SOCKS"}}, ["title lacks: it has: SOCKS"]),
        ({"lacks": {"title": "shirt"}}, []),
        ({"equals": {"title": "Merino Socks", "none": None}}, []),
        ({"equals": {"title": "x"}}, ['title equals: it is "Merino Socks", not "x"']),
        ({"equals": {"gone": 1}}, ["gone equals: it is not there, not 1"]),
        ({"equals": {"claims.count": 9}}, ["claims.count equals: it is 3, not 9"]),
        ({"items": {"claims": {"min": 2, "max": 2}}}, []),
        ({"items": {"claims": {"min": 3}}}, ["claims items: it has 2 items, where at least 3 is asked for"]),
        ({"items": {"title": {"min": 1}}}, ["title items: it has no items, where at least 1 is asked for"]),
        ({"range": {"claims.count": {"min": 1, "max": 9}}}, []),
        ({"range": {"claims.count": {"max": 8}}}, ["claims.count range: it has 9, where at most 8 is asked for"]),
        (
            {"range": {"claims.count": {"min": 4, "max": 8}}},
            ["claims.count range: it has 3, where at least 4 and at most 8 is asked for"],
        ),
    ],
)
def test_what_is_expected_of_a_draft(expect: dict[str, Any], reasons: list[str]) -> None:
    assert unmet(expect) == reasons


def test_without_a_word_a_task_ends_as_usual_and_passes_its_gates() -> None:
    assert unmet({}, "dead", None) == ["state: it ended as dead and not as review: the last word"]
    assert unmet({}, failing=("length",)) == ["gates: length: too bad"]


def test_a_gate_may_be_expected_to_fail() -> None:
    assert unmet({"fails": ["length"]}, failing=("length",)) == []
    assert unmet({"fails": ["length"]}, failing=("length", "links")) == ["gates: links: too bad"]
    assert unmet({"fails": ["length"]}) == ["gates: the gate length was to fail, and passed"]


def test_a_task_may_be_expected_to_come_without_a_draft() -> None:
    assert unmet({"state": "person"}, "person", None) == []
    assert unmet({"state": "person"}) == ["state: it ended as review and not as person: the last word"]
