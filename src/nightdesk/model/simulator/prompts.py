"""A request to a model as the simulator understands it, whichever provider's form it came in."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from nightdesk.canonical import Json, canonical

Ttl = Literal["5m", "1h"]
CHARACTERS_PER_TOKEN = 4
ANY = "*"


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the input in the order in which providers cache it; `mark` asks for a cache entry that ends here."""

    text: str
    mark: Ttl | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """`forced` is the name of the tool that must be called, or ANY. `tool_turns` are earlier answers that called one.

    `asked` is the last text of the user; `material` is what tools have answered since. `answers` is how many answers
    are wanted: they are all the same.
    """

    model: str
    parts: list[Part]
    asked: str
    material: str = ""
    tools: list[Tool] = field(default_factory=list)
    forced: str = ""
    schema: Json = None
    tool_turns: int = 0
    most_tokens: int | None = None
    answers: int = 1

    @property
    def input_tokens(self) -> int:
        return tokens(sum(len(part.text) for part in self.parts))


def tokens(characters: int) -> int:
    """A plain estimate, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def as_part(value: Json, mark: Ttl | None = None) -> Part:
    return Part(value if isinstance(value, str) else canonical(value), mark)


def joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def texts_of(content: Json, *types: str) -> list[str]:
    """The texts in a message's content: a string, or a list of typed parts."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type") in types]
