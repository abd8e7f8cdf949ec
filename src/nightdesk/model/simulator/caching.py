"""Prompt caches: Anthropic's, which the request marks, and OpenAI's, which works by itself on long prefixes."""

import hashlib
from dataclasses import dataclass

from nightdesk.model.simulator.prompts import CHARACTERS_PER_TOKEN, Prompt, Ttl, tokens

_SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
_AUTOMATIC_SECONDS = 600.0
_STEP_CHARACTERS = 128 * CHARACTERS_PER_TOKEN
_MOST_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens of one execution. `input` counts all of the input, also what the cache gave or took."""

    input: int
    output: int
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h

    @property
    def plain(self) -> int:
        """Input at the full price."""
        return self.input - self.read - self.written


@dataclass(frozen=True, slots=True)
class _Prefix:
    key: str
    tokens: int
    ttl: Ttl = "5m"


class PromptCache:
    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def marked(self, prompt: Prompt, output: int, now: float, least: int, luck: float) -> Spent:
        """By the request's marks: the longest prefix that is still there is read, the marked rest is written.

        `luck` is the share of possible hits that happen; which ones they are depends on the request alone."""
        prefixes = [prefix for prefix in _marked_prefixes(prompt) if prefix.tokens >= least]
        hit = self._longest(prefixes, prompt.model, now) if _lucky(prompt, luck) else None
        read = hit.tokens if hit else 0
        written: dict[Ttl, int] = {"5m": 0, "1h": 0}
        upto = read
        for prefix in prefixes:
            written[prefix.ttl] += max(0, prefix.tokens - upto)
            upto = max(upto, prefix.tokens)
            self._keep(f"{prompt.model}:{prefix.key}", now + _SECONDS[prefix.ttl], now)
        return Spent(prompt.input_tokens, output, read, written["5m"], written["1h"])

    def automatic(self, prompt: Prompt, output: int, now: float, least: int, luck: float) -> Spent:
        """By itself: prefixes of the least size, and of each 128 tokens more. Writing costs nothing."""
        prefixes = _stepped_prefixes(prompt, least)
        hit = self._longest(prefixes, prompt.model, now) if _lucky(prompt, luck) else None
        for prefix in prefixes:
            self._keep(f"{prompt.model}:{prefix.key}", now + _AUTOMATIC_SECONDS, now)
        return Spent(prompt.input_tokens, output, hit.tokens if hit else 0)

    def _longest(self, prefixes: list[_Prefix], model: str, now: float) -> _Prefix | None:
        there = (prefix for prefix in reversed(prefixes) if self._until.get(f"{model}:{prefix.key}", 0.0) > now)
        return next(there, None)

    def _keep(self, key: str, until: float, now: float) -> None:
        if len(self._until) >= _MOST_ENTRIES:
            self._until = {key: end for key, end in self._until.items() if end > now}
        self._until[key] = max(until, self._until.get(key, 0.0))


def _marked_prefixes(prompt: Prompt) -> list[_Prefix]:
    if all(part.mark is None for part in prompt.parts):
        return []
    hasher, characters, found = hashlib.sha256(), 0, []
    for part in prompt.parts:
        hasher.update(f"{len(part.text)}:{part.text}".encode())
        characters += len(part.text)
        if part.mark is not None:
            found.append(_Prefix(hasher.hexdigest(), tokens(characters), part.mark))
    return found


def _stepped_prefixes(prompt: Prompt, least: int) -> list[_Prefix]:
    if prompt.input_tokens < least:
        return []
    text = "".join(part.text for part in prompt.parts)
    hasher, found = hashlib.sha256(), []
    begin, end = 0, max(least * CHARACTERS_PER_TOKEN, _STEP_CHARACTERS)
    while end <= len(text):
        hasher.update(text[begin:end].encode("utf-8", "replace"))
        found.append(_Prefix(hasher.hexdigest(), end // CHARACTERS_PER_TOKEN))
        begin, end = end, end + _STEP_CHARACTERS
    return found


def _lucky(prompt: Prompt, luck: float) -> bool:
    if luck >= 1:
        return True
    drawn = hashlib.sha256("".join(part.text for part in prompt.parts).encode("utf-8", "replace")).digest()
    return int.from_bytes(drawn[:4], "big") / 2**32 < luck
