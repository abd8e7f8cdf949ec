"""Reading text as gates do: without what cannot be seen, in words, sentences and numbers."""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002]+(?=[\s\"'\u201d\u2019)\]]|$)|\n{2,}|\n(?=\s*(?:[-*#>\u2022]|\d+[.)]))")
_HEADING = re.compile(r"^([ \t]*#.*)$", re.MULTILINE)
# A number is not a part of a word, but a unit may follow it at once, as in 500ml or 20%.
_NUMBER = re.compile(r"(?<!\w)(?<!\d[.,])\d+(?:[.,\u2019'\u00a0\u202f]\d+)*")
_TIMES = re.compile(r"(?<=\d)\s?[x\u00d7]\s?(?=\d)")
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*>][ \t]+)?\d{1,3}[.)](?=[ \t])", re.MULTILINE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_LONGEST_NUMBER = 25  # so many digits are kept exactly
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,\u2019'\u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_DECIMAL = re.compile(r"\d+(?:[.,]\d+)?")


def plain(text: str) -> str:
    """The text for comparing: one form for letters that look the same, small, nothing invisible, single spaces."""
    seen = unicodedata.normalize("NFKC", text)
    seen = "".join(letter for letter in seen if unicodedata.category(letter) not in ("Cf", "Cc") or letter.isspace())
    return " ".join(seen.casefold().replace("\u2019", "'").split())


def words(text: str) -> list[str]:
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """Headings and the items of lists are sentences of their own."""
    apart = _HEADING.sub(r"\1\n\n", text)
    return [part for part in (piece.strip() for piece in _SENTENCE_END.split(apart)) if part and words(part)]


def addresses(text: str) -> Iterator[str]:
    """The web addresses in the text, without the punctuation that ends a sentence behind them."""
    for found in _ADDRESS.finditer(text):
        address = found[0].rstrip(".,;:!?*_~")
        while address.endswith((")", "]", "}")) and address.count(address[-1]) > address.count(_OPENED[address[-1]]):
            address = address[:-1].rstrip(".,;:!?*_~")
        yield address


def without_addresses(text: str) -> str:
    return _ADDRESS.sub(" ", text)


_OPENED = {")": "(", "]": "[", "}": "{"}


def numbers(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Each number as it is written, and every value that it may have: 1.500 is one and a half, or fifteen hundred.

    The numbers of list items and those in web addresses are none.
    """
    shown = _TIMES.sub(" x ", _LIST_MARK.sub(" ", without_addresses(text)))
    for found in _NUMBER.finditer(shown):
        yield found[0], _values(found[0])


@lru_cache(maxsize=10_000)
def _values(written: str) -> frozenset[str]:
    digits = "".join(str(unicodedata.decimal(letter, letter)) for letter in written)
    if len(digits) > _LONGEST_NUMBER:
        return frozenset([digits])
    readings = []
    if _THOUSANDS.fullmatch(digits):
        separator = re.sub(r"\d", "", digits)[0]
        readings.append(digits.replace(separator, "").replace(",", "."))
    if _DECIMAL.fullmatch(digits):
        readings.append(digits.replace(",", "."))
    # What is neither, such as a version, must be there as it is.
    return frozenset(format(Decimal(reading).normalize(), "f") for reading in readings) or frozenset([digits])
