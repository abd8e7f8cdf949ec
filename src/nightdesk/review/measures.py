"""Gates that measure: how long a draft is, and how hard to read."""

import re
from functools import lru_cache

from pyphen import Pyphen  # type: ignore[import-untyped]

from nightdesk.playbook.gates import Length, Readability
from nightdesk.review.material import Material, cut, verdict
from nightdesk.review.places import Found, values_at
from nightdesk.review.words import sentences, without_addresses, words
from nightdesk.work.draft import Verdict

# Reading ease is a - b * (words per sentence) - c * (syllables per word): Flesch's for English, and for others what
# was found by the same means: by Amstad (de), Fernández Huerta (es), Kandel and Moles (fr), Vacca (it), Douma (nl).
_EASE = {
    "de": (180.0, 1.0, 58.5),
    "en": (206.835, 1.015, 84.6),
    "es": (206.84, 1.02, 60.0),
    "fr": (207.0, 1.015, 73.6),
    "it": (217.0, 1.3, 60.0),
    "nl": (206.84, 0.93, 77.0),
}
_FEWEST_WORDS = 30  # in less, one long word decides
_LONGEST_WORD = 60
_VOWELS = re.compile("[aeiouyäöüáéíóúàèìòùâêîôûëïãõœæ]+")
_SILENT = {"en": re.compile("(?<=[^l])e$|(?<=[^tdszc])e[ds]$"), "fr": re.compile("(?:e|es|ent)$")}
_MARKUP = re.compile(r"[*_`#>|]+")


def length(settings: Length, material: Material) -> Verdict:
    """Every text at the place must have the length; of items, every list."""
    found = list(_measured(settings, material))
    wrong = [(where, count) for where, count in found if not _fits(count, settings)]
    counts = [count for _, count in wrong or found]
    evidence = [f"{where} has {count} {settings.unit}" for where, count in wrong]
    value = (max(counts) if settings.max is not None else min(counts)) if counts else 0
    passed = not wrong and (bool(found) or not settings.min)
    return verdict(settings, passed=passed, value=value, threshold=_bounds(settings), evidence=evidence)


def readability(settings: Readability, material: Material) -> Verdict:
    text = _without_markup(material.whole(settings.field))
    said, parts = words(text), sentences(text)
    threshold = f"a reading ease of at least {settings.min:g}"
    if len(said) < _FEWEST_WORDS:
        return verdict(settings, passed=True, value=None, threshold=threshold, evidence=["too short to be measured"])
    per_sentence = len(said) / max(1, len(parts))
    per_word = sum(_syllables(word.lower(), settings.language) for word in said) / len(said)
    base, by_sentence, by_word = _EASE[settings.language]
    ease = round(base - by_sentence * per_sentence - by_word * per_word, 1)
    longest = max(parts, key=lambda part: len(words(part)))
    evidence = [
        f"{per_sentence:.1f} words a sentence, {per_word:.2f} syllables a word",
        f"the longest sentence has {len(words(longest))} words: {cut(longest)}",
    ]
    return verdict(settings, passed=ease >= settings.min, value=ease, threshold=threshold, evidence=evidence)


def _measured(settings: Length, material: Material) -> list[tuple[str, int]]:
    if settings.unit == "items":
        found = values_at(material.draft, settings.field)
        return [(here.place, len(here.value)) for here in found if isinstance(here.value, list)]
    if settings.field is None:
        return [("the draft", _size(Found("", material.whole(None)), settings))]
    return [(here.place, _size(here, settings)) for here in material.texts(settings.field)]


def _size(found: Found, settings: Length) -> int:
    return len(words(found.value)) if settings.unit == "words" else len(found.value)


def _fits(count: int, settings: Length) -> bool:
    return (settings.min or 0) <= count and (settings.max is None or count <= settings.max)


def _bounds(settings: Length) -> str:
    low, high, unit = settings.min, settings.max, settings.unit
    if low is not None and high is not None:
        return f"{low} to {high} {unit}"
    return f"at least {low} {unit}" if high is None else f"at most {high} {unit}"


def _without_markup(text: str) -> str:
    return _MARKUP.sub(" ", without_addresses(text))


@lru_cache(maxsize=50_000)
def _syllables(word: str, language: str) -> int:
    """The larger of two low estimates: places to hyphenate, and groups of vowels."""
    word = word[:_LONGEST_WORD]
    silent = _SILENT.get(language)
    sounded = silent.sub("", word) if silent else word
    return max(len(_hyphens(language).positions(word)) + 1, len(_VOWELS.findall(sounded)))


@lru_cache
def _hyphens(language: str) -> Pyphen:
    return Pyphen(lang=language)
