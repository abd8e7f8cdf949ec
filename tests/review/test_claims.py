"""The gates that hold a draft against its input: sources and numbers."""

import time

import pytest
from hypothesis import given, settings, strategies as st

from nightdesk.review.words import numbers
from tests.review.looking import look

FACTS = {
    "facts": [{"fact": "18 of 20 kept their size", "source": "Care lab, 2029"}, {"fact": "x", "source": "Survey 9"}]
}


def test_every_claim_needs_a_source() -> None:
    draft = {"claims": [{"claim": "wool felts", "source": "Care lab"}, {"claim": "it shrinks", "source": "  "}]}
    verdict = look("sources", draft, claims="claims")
    assert (verdict.passed, verdict.value, verdict.threshold) == (False, 1, "a source for each of 2 claims")
    assert list(verdict.evidence) == ["claims[1] has no source: it shrinks"]


@pytest.mark.parametrize("source", ["Care lab, 2029", "care  LAB, 2029", "Care\u200b lab, 2029"])
def test_a_source_is_one_of_those_that_the_input_gives(source: str) -> None:
    settings = {"claims": "claims", "among": "facts.source"}
    assert look("sources", {"claims": [{"claim": "a", "source": source}]}, FACTS, **settings).passed
    made_up = look("sources", {"claims": [{"claim": "a", "source": "Harvard study"}]}, FACTS, **settings)
    assert list(made_up.evidence) == ["claims[0] has a source that the input does not: Harvard study"]


@pytest.mark.parametrize("claims", [[{"claim": "a"}], [{"claim": "a", "source": None}], ["a bare text"], [5], [None]])
def test_claims_of_any_form_without_a_source_fail(claims: list[object]) -> None:
    assert not look("sources", {"claims": claims}, claims="claims").passed


def test_so_many_claims_at_least() -> None:
    assert look("sources", {"claims": []}, claims="claims").passed
    verdict = look("sources", {"claims": []}, claims="claims", least=1)
    assert list(verdict.evidence) == ["there are 0 claims, and at least 1 are asked for"]


@pytest.mark.parametrize(
    ("draft", "given", "new"),
    [
        ("holds 750 ml", "750 ml", []),
        ("holds 750ml, 0.75 l", "750 ml", ["0.75"]),
        ("1,299 euros", "1299 euros", []),
        ("1.299,00 Euro", "1,299.00 euros", []),
        ("1.5 kg", "1,5 kg", []),
        ("1\u202f000 ml and 1'000 ml", "1000 ml", []),
        ("\u0667\u0665\u0660 \u0645\u0644", "750 ml", []),
        ("50% less", "half as much", ["50"]),
        ("at 4K and 60 Hz", "4K at 60 Hz", []),
        ("10x20 cm", "10 x 20 cm", []),
        ("10\u00d721 cm", "10 x 20 cm", ["21"]),
        ("model B07X9", "nothing", []),
        ("1. First\n2. Second\n10) Tenth", "nothing", []),
        ("see https://example.com/2024/12", "nothing", []),
        ("version 4.5.1", "version 4.5.1", []),
        ("version 4.5.2", "version 4.5.1", ["4.5.2"]),
        ("on 2026-01-31", "31.01.2026", ["2026", "01", "31"]),
        ("rated 4.7", "rated 4.70", []),
        ("000", "0", []),
    ],
)
def test_numbers_that_the_input_has_not(draft: str, given: str, new: list[str]) -> None:
    verdict = look("numbers", {"a": draft}, {"b": given})
    assert list(verdict.evidence) == [f"{number} is not in the input" for number in new]
    assert (verdict.passed, verdict.value) == (not new, f"{len(new)} new")


def test_some_new_numbers_may_be_allowed_and_counting_is_free() -> None:
    draft = {"a": "5 steps in 3 days, and 999 more"}
    assert not look("numbers", draft).passed
    assert not look("numbers", draft, counting=10).passed
    assert look("numbers", draft, counting=10, new=1).passed


def test_numbers_of_the_input_must_not_be_lost() -> None:
    given = {"title": "Bottle 750 ml, 2 pieces", "note": "made in 2019"}
    asked = {"from": ["title"], "lost": 0}
    assert look("numbers", {"a": "2 bottles of 750 ml"}, given, **asked).passed
    verdict = look("numbers", {"a": "a bottle of 750 ml"}, given, **asked)
    assert (verdict.passed, verdict.value, verdict.threshold) == (False, "0 new, 1 lost", "at most 0 new, 0 lost")
    assert list(verdict.evidence) == ["2 is lost"]
    assert list(look("numbers", {"a": ""}, given, lost=0).evidence) == ["750 is lost", "2 is lost", "2019 is lost"]


def test_numbers_that_are_no_text_count_too() -> None:
    assert look("numbers", {"price": 12.5, "count": 3, "ok": True}, {"a": "12,50 for 3"}).passed
    assert list(look("numbers", {"price": 13}, {"price": 12}).evidence) == ["13 is not in the input"]
    assert look("numbers", {"big": 1e15, "small": 0.001}, {"big": 1000000000000000, "small": "0.001"}).passed


@given(st.decimals(min_value=0, max_value=10**9, places=2, allow_nan=False))
@settings(max_examples=100)
def test_a_number_is_the_same_however_it_is_grouped(number: object) -> None:
    english, german = f"{number:,.2f}", f"{number:,.2f}".translate(str.maketrans(",.", ".,"))
    assert look("numbers", {"a": german}, {"b": english}).passed
    assert look("numbers", {"a": f"{number:.2f}"}, {"b": german}).passed


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
@settings(max_examples=200)
def test_any_text_has_the_numbers_that_it_has(text: str) -> None:
    assert look("numbers", {"a": text}, {"b": text}).passed


@pytest.mark.parametrize(
    "text", ["1" * 500_000, "1,000," * 50_000, "1.1." * 50_000, "9 " * 100_000, "\u0663" * 100_000]
)
def test_huge_numbers_are_read_in_a_moment(text: str) -> None:
    began = time.monotonic()
    assert len(list(numbers(text))) >= 0
    assert not look("numbers", {"a": text}, {"b": "7"}).passed
    assert time.monotonic() - began < 20
