"""Up to five thousand reviews, sorted in parts that are all asked at once, then summed up in one further call."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, create_model

from nightdesk.errors import AskPerson

_PART = 50
_LONGEST_TOLD = 1_200  # of a review, in characters; the rest of a very long one is not read
_MOST_THEMES = 12
_SENTENCES_PER_THEME = 8
_QUOTES = 3
_LONGEST_SENTENCE = 300
_SHARE_UNREAD = 0.2

Number = Annotated[str, StringConstraints(pattern=r"^r\d{1,4}$")]
SentenceNumber = Annotated[str, StringConstraints(pattern=r"^s\d{1,4}$")]
Opinions = dict[tuple[str, str], set[int]]  # (theme, praised or criticised) -> places of reviews
Told = tuple[str, int, str]  # theme, place of the review, sentence


async def summarise(order: Any, desk: Any) -> dict[str, Any]:
    parts = [range(start, min(start + _PART, len(order.reviews))) for start in range(0, len(order.reviews), _PART)]
    sorted_parts = await asyncio.gather(*(_sort(order, desk, part) for part in parts))
    unread = [place for part, found in zip(parts, sorted_parts, strict=True) if found is None for place in part]
    if len(unread) > _SHARE_UNREAD * len(order.reviews):
        raise AskPerson(f"The model gave no usable answer for {len(unread)} of {len(order.reviews)} reviews.")
    opinions = _together(sorted_parts)
    ratings = [review.rating for review in order.reviews if review.rating is not None]
    return {
        "product": order.product,
        "reviews": len(order.reviews),
        "unread": len(unread),
        "average_rating": round(sum(ratings) / len(ratings), 2) if ratings else None,
        "sentiment": _sentiment(order.reviews, opinions),
        **await _sum_up(order, desk, opinions),
    }


async def _sort(order: Any, desk: Any, part: range) -> Opinions | None:
    """Which reviews of the part praise or criticise what; None if the model gave no usable answer."""
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    given = [order.reviews[place] for place in part]
    shown = [
        {"review": f"r{number}", "stars": review.rating, "text": review.text[:_LONGEST_TOLD]}
        for number, review in enumerate(given, 1)
    ]
    material = {"product": order.product, "themes": list(order.themes), "reviews": shown}
    try:
        answered = await _ask(desk, _sorting(tuple(order.themes)), "sort reviews", material)
    except UnexpectedModelBehavior:
        return None
    found: Opinions = defaultdict(set)
    for entry in answered.entries:
        places = (part.start + int(number[1:]) - 1 for number in entry.reviews)
        found[entry.theme, entry.opinion] |= {place for place in places if place in part}
    return found


def _sorting(themes: tuple[str, ...]) -> type[BaseModel]:
    """The form of the answer: with the themes of this task, and the same for each of its parts."""
    theme: Any = Literal[themes]
    opinion: Any = Literal["praised", "criticised"]
    numbers: Any = (list[Number], Field(min_length=1))
    entry = create_model("Entry", theme=(theme, ...), opinion=(opinion, ...), reviews=numbers)
    return create_model("Sorting", entries=(list[entry], ...))  # type: ignore[valid-type]


def _together(parts: Iterable[Opinions | None]) -> Opinions:
    found: Opinions = defaultdict(set)
    for part in parts:
        for key, places in (part or {}).items():
            found[key] |= places
    return found


def _sentiment(reviews: Sequence[Any], opinions: Opinions) -> dict[str, int]:
    """By the stars where there are any, else by what the review praises and criticises."""
    praising = {place for (_, opinion), places in opinions.items() if opinion == "praised" for place in places}
    criticising = {place for (_, opinion), places in opinions.items() if opinion == "criticised" for place in places}
    counts = {"positive": 0, "mixed": 0, "negative": 0, "unknown": 0}
    for place, review in enumerate(reviews):
        counts[_mood(review.rating, place in praising, place in criticising)] += 1
    return counts


def _mood(rating: int | None, praises: bool, criticises: bool) -> str:
    if rating is not None:
        return "positive" if rating >= 4 else "negative" if rating <= 2 else "mixed"
    if praises or criticises:
        return "mixed" if praises and criticises else "positive" if praises else "negative"
    return "unknown"


async def _sum_up(order: Any, desk: Any, opinions: Opinions) -> dict[str, Any]:
    """Headline and themes. The model writes and chooses; counts and sentences are what was counted and said."""
    counted = _counted(opinions)
    if not counted:
        return {"headline": f"No review of {order.product} speaks of any of the themes.", "themes": []}
    told = _numbered(order.reviews, opinions, [theme for theme, _, _ in counted])
    themes = [
        {"theme": theme, "praised": praised, "criticised": criticised, "sentences": _of_theme(told, theme)}
        for theme, praised, criticised in counted
    ]
    material = {"product": order.product, "language": order.language, "themes": themes}
    overview = await _ask(desk, _overview(tuple(theme for theme, _, _ in counted)), "sum up", material)
    written = {entry.theme: entry for entry in reversed(overview.themes)}
    found = [_theme(*theme, written.get(theme[0]), told, order.reviews) for theme in counted]
    return {"headline": overview.headline, "themes": found}


def _counted(opinions: Opinions) -> list[tuple[str, int, int]]:
    """Theme, reviews that praise it, reviews that criticise it; those that most speak of first."""
    names = {theme for (theme, _), places in opinions.items() if places}
    found = [(name, len(opinions[name, "praised"]), len(opinions[name, "criticised"])) for name in sorted(names)]
    return sorted(found, key=lambda theme: -(theme[1] + theme[2]))[:_MOST_THEMES]


def _numbered(reviews: Sequence[Any], opinions: Opinions, themes: list[str]) -> dict[str, Told]:
    """Sentences that may be quoted, for each theme some of those who criticise and of those who praise it."""
    found: list[Told] = []
    for theme in themes:
        criticising, praising = sorted(opinions[theme, "criticised"]), sorted(opinions[theme, "praised"])
        half = _SENTENCES_PER_THEME // 2
        chosen = [*criticising[: max(half, _SENTENCES_PER_THEME - len(praising))], *praising]
        found += [(theme, place, _excerpt(reviews[place].text, theme)) for place in chosen[:_SENTENCES_PER_THEME]]
    return {f"s{number}": told for number, told in enumerate(found, 1)}


def _of_theme(told: dict[str, Told], theme: str) -> list[dict[str, str]]:
    return [{"sentence": number, "text": text} for number, (of, _, text) in told.items() if of == theme]


def _excerpt(text: str, theme: str) -> str:
    """A short review whole; of a long one the first sentence with a word of the theme, or its first."""
    whole = " ".join(text.split())
    if len(whole) <= _LONGEST_SENTENCE:
        return whole
    sentences = re.split(r"(?<=[.!?\u2026])\s+", whole)
    spoken = (sentence for sentence in sentences if any(word in sentence.lower() for word in theme.lower().split()))
    return next(spoken, sentences[0])[:_LONGEST_SENTENCE]


def _overview(themes: tuple[str, ...]) -> type[BaseModel]:
    theme: Any = Literal[themes]
    about = create_model(
        "About", theme=(theme, ...), summary=(str, Field(min_length=1)), sentences=(list[SentenceNumber], ...)
    )
    return create_model("Overview", headline=(str, Field(min_length=1)), themes=(list[about], ...))  # type: ignore[valid-type]


def _theme(
    theme: str, praised: int, criticised: int, written: Any, told: dict[str, Told], reviews: Sequence[Any]
) -> dict[str, Any]:
    own = [number for number, (of, _, _) in told.items() if of == theme]
    chosen = [number for number in dict.fromkeys(written.sentences) if number in own] if written else []
    quotes = [
        {"review": reviews[told[number][1]].id or str(told[number][1] + 1), "text": told[number][2]}
        for number in (chosen or own)[:_QUOTES]
    ]
    summary = written.summary if written else f"Praised in {praised}, criticised in {criticised} reviews."
    return {"theme": theme, "praised": praised, "criticised": criticised, "summary": summary, "quotes": quotes}


async def _ask(desk: Any, output: type[BaseModel], job: str, material: dict[str, Any]) -> Any:
    from pydantic_ai import Agent

    agent = Agent(desk.model(), output_type=output, instructions=desk.instructions, retries={"output": 1})
    shown = json.dumps(material, ensure_ascii=False)
    return (await agent.run(f"Your job: {job}. The material, as JSON:\n{shown}")).output
