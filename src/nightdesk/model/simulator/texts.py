"""A text that satisfies a JSON schema, in the words of the prompt where they fit."""

import re

from nightdesk.canonical import Json
from nightdesk.model.simulator.patterns import matching
from nightdesk.model.simulator.words import MARK, Words

_WORDS_PER_TEXT = 8
_LONGEST = 1_000_000
# A pattern may take a time to fail that doubles with each letter.
_LONGEST_WORD_TO_MATCH = 24
_FORMATS = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "PT30M",
    "email": "someone@example.com",
    "uri": "https://example.com/simulated",
    "url": "https://example.com/simulated",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "byte": "c2ltdWxhdGVk",
}


def text(schema: dict[str, Json], words: Words, name: str, salt: int, to_mark: bool) -> tuple[str, bool]:
    """The text, and whether it bears the mark; what has a format or a pattern has no place for one."""
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]], False
    if schema.get("pattern"):
        return _patterned(schema["pattern"], words, name, salt), False
    most = schema.get("maxLength")
    marked = to_mark and (most is None or most > len(MARK))
    said = (words.about(name) if name else "") or words.sentence(_WORDS_PER_TEXT, salt)
    long = _lengthened(f"{MARK} {said}" if marked else said, int(schema.get("minLength", 0)), words)
    return (long if most is None else long[: int(most)]), marked


def _lengthened(text: str, least: int, words: Words) -> str:
    if least > _LONGEST:
        raise ValueError(f"the schema asks for a text of {least} characters")
    while len(text) < least:
        text = f"{text}. {words.sentence(_WORDS_PER_TEXT, len(text))}"
    return text


def _patterned(pattern: str, words: Words, name: str, salt: int) -> str:
    """What the prompt says of the name, else one of its words, that matches the whole pattern; else one made up."""
    said = words.about(name) if name else ""
    if _fits(pattern, said):
        return said
    fitting = [word for word in words.take(200) if _fits(pattern, word)]
    return fitting[salt % len(fitting)] if fitting else matching(pattern) or words.sentence(1)


def _fits(pattern: str, word: str) -> bool:
    return 0 < len(word) <= _LONGEST_WORD_TO_MATCH and re.fullmatch(pattern, word) is not None
