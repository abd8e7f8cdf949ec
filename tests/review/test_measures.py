"""The gates that measure: length and readability."""

import time

import pytest

from tests.review.looking import look

PLAIN = "The cat sat on the mat. It was a warm day. We had milk and bread at noon. " * 5
HARD = (
    "Notwithstanding considerable interdepartmental heterogeneity, organizational responsibilities regarding "
    "environmental sustainability certification necessitate comprehensive multidimensional characterization, "
    "particularly whenever internationally harmonized accountability methodologies remain predominantly hypothetical. "
)


@pytest.mark.parametrize(
    ("draft", "settings", "passed", "value"),
    [
        ({"title": "x" * 200}, {"field": "title", "max": 200}, True, 200),
        ({"title": "x" * 201}, {"field": "title", "max": 200}, False, 201),
        ({"title": "žluť 三徳 👍🏽"}, {"field": "title", "max": 10}, True, 10),
        ({"body": "one two three"}, {"field": "body", "unit": "words", "min": 4}, False, 3),
        ({"body": "it's well-made, 4.5 kg"}, {"field": "body", "unit": "words", "max": 5}, True, 5),
        ({"bullets": ["a", "b"]}, {"field": "bullets", "unit": "items", "min": 2, "max": 2}, True, 2),
        ({"bullets": []}, {"field": "bullets", "unit": "items", "min": 1}, False, 0),
        ({"bullets": ["short", "far too long"]}, {"field": "bullets", "max": 8}, False, 12),
        ({"parts": [{"text": "ab"}, {"text": "abcd"}]}, {"field": "parts.text", "min": 3}, False, 2),
        ({"a": "12", "b": {"c": ["345"]}}, {"max": 10}, True, 7),
        ({"title": None}, {"field": "title", "min": 1}, False, 0),
        ({}, {"field": "title", "max": 5}, True, 0),
        ("just text", {"max": 5}, False, 9),
    ],
)
def test_length(draft: object, settings: dict[str, object], passed: bool, value: int) -> None:
    verdict = look("length", draft, **settings)
    assert (verdict.passed, verdict.value) == (passed, value)
    assert str(settings.get("max", settings.get("min"))) in str(verdict.threshold)


def test_length_names_each_text_that_is_too_long() -> None:
    verdict = look("length", {"bullets": ["fine", "much too long", "fine", "too long as well"]}, field="bullets", max=6)
    assert list(verdict.evidence) == ["bullets[1] has 13 characters", "bullets[3] has 16 characters"]
    assert verdict.field == "bullets"


def test_plain_text_reads_easier_than_officialese() -> None:
    plain, hard = look("readability", {"a": PLAIN}), look("readability", {"a": HARD * 2})
    assert plain.passed
    assert not hard.passed
    assert plain.value > 100 > 0 > hard.value
    assert "words a sentence" in hard.evidence[0]
    assert "Notwithstanding" in hard.evidence[1]


def test_the_ease_of_a_text_of_known_ease_is_found() -> None:
    """Counted by hand: 60 words, 5 sentences, 74 syllables."""
    text = (
        "The old harbour wakes before the town. Gulls circle over the boats while the men sort nets and mend them. "
        "A baker opens his shop at five, and the smell of bread drifts down to the water. Nobody hurries. "
        "When the first ferry comes in, children run along the wall and wave to the people who stand at the rail."
    )
    verdict = look("readability", {"a": text})
    by_hand = 206.835 - 1.015 * 60 / 5 - 84.6 * 74 / 60
    assert verdict.value == pytest.approx(by_hand, abs=3)


def test_headings_and_items_of_lists_are_sentences_of_their_own() -> None:
    listed = "# What to do\n\n" + "\n".join(f"- take the pan number {word} from the fire" for word in "abcdefgh")
    assert look("readability", {"a": listed}, min=60).passed


def test_what_is_too_short_cannot_be_measured_and_passes() -> None:
    verdict = look("readability", {"a": "Interdepartmental heterogeneity."}, min=60)
    assert (verdict.passed, verdict.value) == (True, None)


@pytest.mark.parametrize("language", ["de", "es", "fr", "it", "nl"])
def test_other_languages_have_scales_of_their_own(language: str) -> None:
    texts = {
        "de": "Die Sonne scheint. Das Kind spielt im Garten. Der Hund liegt im Gras. Wir trinken Tee. ",
        "es": "El sol brilla. El niño juega en la plaza. El perro duerme. Nosotros bebemos agua fresca. ",
        "fr": "Le soleil brille. Le chat dort. Nous buvons du lait. La porte est verte. Il fait beau. ",
        "it": "Il sole splende. Il cane dorme. Noi beviamo acqua fresca. La porta è verde. Fa bello. ",
        "nl": "De zon schijnt. Het kind speelt. De hond slaapt in het gras. Wij drinken thee met melk. ",
    }
    verdict = look("readability", {"a": texts[language] * 4}, language=language)
    assert verdict.value > 60


@pytest.mark.parametrize(
    "text", ["x" * 500_000, "ab " * 150_000, "https://a.b/" * 30_000, "!?." * 150_000, "\u200b" * 99]
)
def test_huge_and_odd_texts_are_measured_in_a_moment(text: str) -> None:
    began = time.monotonic()
    look("readability", {"a": text})
    look("length", {"a": text}, unit="words", max=10)
    assert time.monotonic() - began < 20
