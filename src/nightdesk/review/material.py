"""What a gate looks at: the draft, the input that it was made from, and the instructions that it was made by."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nightdesk.canonical import Json
from nightdesk.review.places import Found, texts_at
from nightdesk.work.draft import Verdict


@dataclass(frozen=True, slots=True)
class Material:
    draft: Json
    input: Json
    instructions: str = ""

    def texts(self, field: str | None) -> Iterator[Found]:
        return texts_at(self.draft, [field])

    def whole(self, field: str | None) -> str:
        """All text at the place, in one piece."""
        return "\n\n".join(str(found.value) for found in self.texts(field))


def verdict(settings: Any, *, passed: bool, value: Json, threshold: Json, evidence: list[str]) -> Verdict:
    """`gate` is filled in by whoever knows its name."""
    return Verdict(passed, value, threshold, evidence, field=getattr(settings, "field", None) or "")


def cut(text: str, most: int = 120) -> str:
    """As much of the text as shows what is meant."""
    shown = " ".join(text.split())
    return shown if len(shown) <= most else f"{shown[:most]}…"
