"""Words for answers, taken from the words of the prompt, the same ones each time for the same prompt."""

import re
from functools import cached_property
from itertools import chain, islice

from nightdesk.canonical import digest

MARK = "[simulated]"
_MOST_CHARACTERS = 8_000
_FALLBACK = ["nothing", "was", "asked"]
# A number such as 4.5 or 1,299 is one word: torn apart it would be two numbers that nobody gave.
_WORD = re.compile(r"\d+(?:[.,:]\d+)+|[^\W_][\w'\u2019-]*")


class Words:
    def __init__(self, text: str) -> None:
        self._text = text[-_MOST_CHARACTERS:]

    @cached_property
    def _words(self) -> list[str]:
        return _WORD.findall(self._text) or _FALLBACK

    @cached_property
    def _seed(self) -> int:
        return int(digest(self._text)[:12], 16)

    def take(self, count: int, salt: int = 0) -> list[str]:
        """So many words that follow each other; `salt` moves the place where they begin."""
        words = self._words
        start = (self._seed + salt * 7) % len(words) if count < len(words) or salt else 0
        once = words[start:] + words[:start]
        return list(islice(chain.from_iterable([once] * (count // len(once) + 1)), count))

    def sentence(self, most: int, salt: int = 0) -> str:
        """No word comes twice that is not twice in the prompt."""
        return " ".join(self.take(min(most, len(self._words)), salt))

    def number(self, salt: int = 0) -> int:
        """A number that is as good as drawn at random, but the same each time."""
        return (self._seed >> 3) * 2_654_435_761 % 1_000_003 + salt

    def about(self, name: str) -> str:
        """What the prompt says behind this name and a colon (`name: value`, also in JSON); empty if nothing."""
        spaced = re.escape(name).replace("_", "[ _]")
        found = re.search(rf"\b{spaced}[\"']?\s*[:=]\s*(?:\"([^\"]*)\"|([^\n,;}}\[{{\"]+))", self._text, re.IGNORECASE)
        return (found[1] or found[2] or "").strip() if found else ""
