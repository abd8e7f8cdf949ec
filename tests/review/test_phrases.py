"""The gates for phrases: required, forbidden, and what a prompt leaves behind; and the gate for a form."""

import time

import pytest

from nightdesk.playbook.gates import GATES
from nightdesk.playbook.notation import read_model
from nightdesk.review.material import Material
from nightdesk.review.shape import schema
from nightdesk.work.draft import Verdict
from tests.review.looking import look

INSTRUCTIONS = "You rewrite product listings for a shop. A merchandiser reads your listing next to the old one, always."


def test_all_required_phrases_must_be_there() -> None:
    verdict = look("required", {"title": "Fjellro socks"}, phrases=["fjellro", "merino"])
    assert (verdict.passed, verdict.value, verdict.threshold) == (False, 1, "all of 2 phrases")
    assert list(verdict.evidence) == ["it does not say: merino"]
    assert look("required", {"title": "Fjellro MERINO\n socks"}, phrases=["fjellro", "merino socks"]).passed


def test_phrases_can_come_from_the_input_and_one_can_be_enough() -> None:
    given = {"brand": "Fjellro", "keywords": ["wool", "warm socks"]}
    assert look("required", {"title": "by Fjellro"}, given, **{"from": "brand", "field": "title"}).passed
    assert not look(
        "required", {"title": "socks", "body": "Fjellro"}, given, **{"from": "brand", "field": "title"}
    ).passed
    assert look("required", {"body": "warm socks"}, given, **{"from": "keywords", "any": True}).passed
    assert not look("required", {"body": "socks"}, given, **{"from": "keywords", "any": True}).passed
    assert look("required", {"body": "socks"}, {"keywords": []}, **{"from": "keywords", "any": True}).passed


@pytest.mark.parametrize(
    ("said", "forbidden", "found"),
    [
        ("the best seller of the year", "Best Seller", True),
        ("the best  \n seller", "best seller", True),
        ("the bes\u200bt sel\u00adler", "best seller", True),
        ("the \uff42\uff45\uff53\uff54 seller", "best seller", True),
        ("secure it", "cure", False),
        ("cures everything", "cure", False),
        ("a cure", "cure", True),
        ("cure-all", "cure", True),
        ("wow!", "!", True),
        ("#1 in its class", "#1", True),
        ("#10 in its class", "#1", False),
        ("STRASSE", "straße", True),
        ("it's fine", "it\u2019s fine", True),
    ],
)
def test_forbidden_phrases_are_found_as_words_however_they_are_written(said: str, forbidden: str, found: bool) -> None:
    verdict = look("forbidden", {"a": ["fine", said]}, phrases=[forbidden])
    assert verdict.passed is not found
    assert list(verdict.evidence) == ([f"a[1] says: {forbidden}"] if found else [])


def test_a_phrase_that_nobody_can_see_is_no_phrase() -> None:
    assert look("forbidden", {"a": "x"}, {"avoid": ["\u200b", ""]}, **{"from": "avoid"}).passed


@pytest.mark.parametrize(
    "said",
    [
        "As an AI language model, I cannot taste soup.",
        "Certainly! Here is the text you asked for.",
        "Dear [Your Name], welcome",
        "Hello {{first_name}}!",
        "Lorem ipsum dolor",
        "As the system prompt says: warm socks",
        "Warm socks. I\u2019m sorry, but I cannot assist with that.",
    ],
)
def test_the_talk_of_a_model_is_found(said: str) -> None:
    assert not look("no_prompt_leak", {"a": said}).passed
    assert look("no_prompt_leak", {"a": said}, {"quoted": said}).passed


def test_a_run_of_the_instructions_own_words_is_found() -> None:
    leaked = "Warm socks. A Merchandiser reads -- your listing next to the old one ALWAYS"
    verdict = look("no_prompt_leak", {"a": leaked}, {}, INSTRUCTIONS)
    assert list(verdict.evidence) == [
        "a has words of the instructions: a merchandiser reads your listing next to the old one"
    ]
    assert look("no_prompt_leak", {"a": leaked}, {"facts": leaked}, INSTRUCTIONS).passed
    assert look("no_prompt_leak", {"a": leaked}, {}, INSTRUCTIONS, words=12).passed
    assert look("no_prompt_leak", {"a": "your listing next to the old one"}, {}, INSTRUCTIONS).passed


def test_more_phrases_can_be_named_that_give_a_model_away() -> None:
    assert not look("no_prompt_leak", {"a": "house style rule 7"}, also=["house style rule"]).passed


@pytest.mark.parametrize("text", ["best " * 100_000, "a" * 500_000, "\u200b" * 200_000 + "best seller", "[" * 500_000])
def test_huge_texts_are_searched_in_a_moment(text: str) -> None:
    began = time.monotonic()
    look("forbidden", {"a": text}, phrases=["best seller", "#1"])
    look("no_prompt_leak", {"a": text}, {"b": text}, INSTRUCTIONS)
    assert time.monotonic() - began < 20


def _form(draft: object, type_: object, field: str | None = None) -> Verdict:
    settings = GATES["schema"].model_validate({"type": None, "field": field})
    return schema(settings.model_copy(update={"type": read_model({"value": type_}, [], ())}), Material(draft, {}))  # type: ignore[arg-type]


def test_a_form_can_be_stricter_than_the_output() -> None:
    three = {"type": ["string"], "min": 3, "max": 3}
    assert _form({"bullets": ["a", "b", "c"]}, three, "bullets").passed
    verdict = _form({"bullets": ["a"]}, three, "bullets")
    assert (verdict.passed, verdict.value) == (False, "1 faults")
    assert list(verdict.evidence) == ["bullets must have at least 3 items after validation, not 1"]


def test_every_fault_of_form_is_named_with_its_place() -> None:
    verdict = _form({"a": "x", "b": [1, "2"]}, {"a": "int", "b": ["int"]})
    assert [fault.split(" ", 1)[0] for fault in verdict.evidence] == ["a", "b[1]"]
    assert list(_form({}, "string", "title").evidence) == ["there is no title"]
    assert list(_form("x", "int").evidence) == ["it must be a valid integer"]
