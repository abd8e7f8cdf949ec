"""What the simulator needs of each provider's form of question and answer."""

import json
from dataclasses import dataclass
from typing import Protocol

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import Reply
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.meter import Lane
from nightdesk.model.simulator.prompts import Prompt
from nightdesk.model.simulator.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Answered:
    """An executed request: `id` is its identity, `body` its JSON; `count` is how often the reply is given."""

    id: str
    body: dict[str, Json]
    reply: Reply
    spent: Spent
    lane: Lane
    created: int
    count: int = 1


class Dialect(Protocol):
    provider: str
    endpoint: str
    marks_cache: bool

    def problem(self, body: dict[str, Json]) -> Refusal | None:
        """What is wrong with the request; None if nothing."""

    def read(self, body: dict[str, Json]) -> Prompt: ...

    def write(self, answered: Answered) -> dict[str, Json]: ...

    def stream(self, answer: dict[str, Json], body: dict[str, Json]) -> bytes:
        """The answer as server-sent events."""


def missing(body: dict[str, Json], *names: str) -> str:
    """The first of these that the body lacks. A model that is no text is none."""
    if not isinstance(body.get("model"), str):
        return "model"
    return next((name for name in names if not body.get(name)), "")


def event(data: Json, name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n"


def schema_of(value: Json) -> Json:
    return value if isinstance(value, dict) else {}


def pieces(text: str, count: int = 3) -> list[str]:
    """The text in so many parts, as a stream brings it."""
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]
