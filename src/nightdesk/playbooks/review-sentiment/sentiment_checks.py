"""Three checks of a summary of reviews: its counts add up, its quotations are reviews, its numbers are counts."""

from typing import Any

from nightdesk.review.words import numbers, plain
from nightdesk.work import Verdict


def counts_add_up(draft: Any, order: Any) -> Verdict:
    total, moods = len(order.reviews), draft.sentiment
    wrong = [f"{theme.theme} is spoken of more often than there are reviews" for theme in draft.themes
             if max(theme.praised, theme.criticised) > total]  # fmt: skip
    if moods.positive + moods.mixed + moods.negative + moods.unknown != total:
        wrong.append("the moods do not add up to the number of reviews")
    if draft.unread > total / 10:
        wrong.append(f"{draft.unread} reviews were not read")
    return Verdict(not wrong and draft.reviews == total, draft.reviews, total, wrong)


def quotes_are_reviews(draft: Any, order: Any) -> Verdict:
    said = {review.id or str(number): plain(review.text) for number, review in enumerate(order.reviews, 1)}
    quotes = [quote for theme in draft.themes for quote in theme.quotes]
    wrong = [quote.text for quote in quotes if plain(quote.text) not in said.get(quote.review, "")]
    return Verdict(not wrong, f"{len(wrong)} of {len(quotes)} are not", "every quotation is in its review", wrong)


def numbers_are_counts(draft: Any, order: Any) -> Verdict:
    """A number in the text was counted here, or is in what was handed in."""
    given = [order.product, *order.themes, *(review.text for review in order.reviews)]
    counted = [draft.reviews, draft.average_rating, *vars(draft.sentiment).values()]
    counted += [count for theme in draft.themes for count in (theme.praised, theme.criticised)]
    texts = [*given, *(str(count) for count in counted), *(str(star) for star in range(1, 6))]
    known = {value for text in texts for _, found in numbers(text) for value in found}
    said = [draft.headline, *(theme.summary for theme in draft.themes)]
    new = [shown for text in said for shown, found in numbers(text) if not found & known]
    return Verdict(
        not new, f"{len(new)} new", "no number that was not counted", [f"{shown} is nowhere" for shown in new]
    )
