"""Two checks of a scan: its quotations are on the pages, its numbers in a quotation or in what was handed in."""

from typing import Any

from nightdesk.canonical import jsonable
from nightdesk.review.places import texts_at
from nightdesk.review.words import numbers, plain
from nightdesk.work import Verdict


def quotes_are_there(draft: Any, order: Any) -> Verdict:
    """Of pages that were handed in as plain text; from others the code itself took the quotations."""
    texts = {page.name: plain(page.text) for page in order.pages if page.text is not None and "<" not in page.text}
    given = [finding for finding in draft.findings if finding.competitor in texts]
    wrong = [finding.quote for finding in given if plain(finding.quote) not in texts[finding.competitor]]
    return Verdict(not wrong, f"{len(wrong)} of {len(given)} are not there", "every quotation is on its page", wrong)


def numbers_are_quoted(draft: Any, order: Any) -> Verdict:
    given = [str(found.value) for found in texts_at(jsonable(order), [None])]
    known = {
        value for text in [*given, *(f.quote for f in draft.findings)] for _, found in numbers(text) for value in found
    }
    said = [draft.summary, *(f.what for f in draft.findings), *(f"{m.move} {m.because}" for m in draft.moves)]
    new = [shown for text in said for shown, found in numbers(text) if not found & known]
    return Verdict(
        not new, f"{len(new)} new", "no number that no quotation has", [f"{shown} is nowhere" for shown in new]
    )
