"""A greeting in two steps. A completed step is saved: after a crash the work goes on behind it."""

from typing import Any

GREETINGS = {"en": "Good morning", "de": "Guten Morgen", "fr": "Bonjour"}


async def greet(wanted: Any, desk: Any) -> dict[str, str]:
    words = await desk.step("choose", choose, wanted.language)
    return {"text": await desk.step("write", write, words, wanted.name)}


def choose(language: str) -> str:
    return GREETINGS[language]


def write(words: str, name: str) -> str:
    return f"{words}, {name}!"
