"""Characters that nobody sees, or that change how others are seen: an approval is for what its reader could read."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from nightdesk.canonical import Json
from nightdesk.review.places import texts_at

_PLAIN = frozenset("\n\t")
_UNSEEN = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")
# Letters that are drawn as nothing, and selectors of how the character before is drawn.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Where in the draft, and which characters as `U+200B ZERO WIDTH SPACE`."""

    place: str
    characters: list[str]


def hidden_in(value: Json) -> Iterator[Hidden]:
    for found in texts_at(value, [None]):
        characters = dict.fromkeys(_named(letter) for letter in _unseen(str(found.value)))
        if characters:
            yield Hidden(found.place, list(characters))


def shown(text: str) -> str:
    """The text with everything unseen written out, as in `price\u27e8U+202E\u27e9`."""
    unseen = set(_places(text))
    return "".join(
        f"\u27e8U+{ord(letter):04X}\u27e9" if place in unseen else letter for place, letter in enumerate(text)
    )


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}"


def _unseen(text: str) -> Iterator[str]:
    return (text[place] for place in _places(text))


def _places(text: str) -> Iterator[int]:
    if text.isascii() and text.isprintable():
        return
    for place, letter in enumerate(text):
        if _is_unseen(letter) and not (letter in _JOINERS and _is_drawn_with(text, place)):
            yield place


def _is_unseen(letter: str) -> bool:
    if letter in _PLAIN:
        return False
    code = ord(letter)
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    return is_selector or letter in _BLANK or unicodedata.category(letter) in _UNSEEN


def _is_drawn_with(text: str, place: int) -> bool:
    """Emoji are put together of several characters; there these belong."""
    before = text[place - 1] if place else ""
    return before in _JOINERS or (before != "" and (unicodedata.category(before) in ("So", "Sk") or before in "#*"))
