"""Gates that hold a draft against its input: whether claims have sources, and whether numbers are the input's."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from nightdesk.canonical import Json
from nightdesk.playbook.gates import Numbers, Sources
from nightdesk.review.material import Material, cut, verdict
from nightdesk.review.places import Found, items_of, scalars_at, texts_at, values_at
from nightdesk.review.words import numbers, plain
from nightdesk.work.draft import Verdict


@dataclass(frozen=True, slots=True)
class Claim:
    """`wants` is what its sources lack; empty where it is supported."""

    place: str
    said: str
    sources: list[str]
    wants: str


def claims_in(settings: Sources, material: Material) -> list[Claim]:
    """What the draft claims, each with the sources that it names for it."""
    among = [settings.among] if settings.among else None
    known = {plain(str(found.value)) for found in texts_at(material.input, among)} if among else None
    return [
        _claim(settings, claim, known)
        for found in values_at(material.draft, settings.claims)
        for claim in items_of(found)
    ]


def _claim(settings: Sources, claim: Found, known: set[str] | None) -> Claim:
    named = [str(found.value) for found in texts_at(claim.value, [settings.source])]
    texts = [str(found.value) for found in texts_at(claim.value, [None]) if plain(found.value)]
    said, wants = "; ".join(text for text in texts if text not in named), ""
    if not any(plain(name) for name in named):
        wants = f"has no source: {cut(said)}"
    elif known is not None and not all(plain(name) in known for name in named):
        wants = f"has a source that the input does not: {cut(named[0])}"
    return Claim(claim.place, said, named, wants)


def sources(settings: Sources, material: Material) -> Verdict:
    """Each claim names its source; where the input gives the sources there are, it is one of them."""
    claims = claims_in(settings, material)
    wanting = [f"{claim.place} {claim.wants}" for claim in claims if claim.wants]
    sourced = len(claims) - len(wanting)
    if len(claims) < settings.least:
        wanting.append(f"there are {len(claims)} claims, and at least {settings.least} are asked for")
    return verdict(
        settings,
        passed=not wanting,
        value=sourced,
        threshold=f"a source for each of {len(claims)} claims",
        evidence=wanting,
    )


def numbers_kept(settings: Numbers, material: Material) -> Verdict:
    """No number that the input has not; and, where that is asked for, none of the input's is lost."""
    said = _numbers_in(material.draft, [settings.field])
    given = _numbers_in(material.input, [None])
    known = {value for values in given.values() for value in values}
    new = [shown for shown, values in said.items() if not values & known and not _is_counting(values, settings)]
    lost = []
    if settings.lost is not None:
        kept = {value for values in said.values() for value in values}
        due = _numbers_in(material.input, settings.from_ or [None])
        lost = [shown for shown, values in due.items() if not values & kept]
    passed = len(new) <= settings.new and (settings.lost is None or len(lost) <= settings.lost)
    evidence = [f"{number} is not in the input" for number in new] + [f"{number} is lost" for number in lost]
    return verdict(
        settings, passed=passed, value=_counts(settings, new, lost), threshold=_most(settings), evidence=evidence
    )


def _numbers_in(root: Json, places: Iterable[str | None]) -> dict[str, frozenset[str]]:
    """Each number as it is written there, with its values."""
    found: dict[str, frozenset[str]] = {}
    for here in scalars_at(root, places):
        for shown, values in numbers(here.value if isinstance(here.value, str) else _written(here.value)):
            found.setdefault(shown, values)
    return found


def _written(number: float) -> str:
    return format(Decimal(str(number)), "f")


def _is_counting(values: frozenset[str], settings: Numbers) -> bool:
    return any(len(value) <= 3 and value.isdecimal() and int(value) <= settings.counting for value in values)


def _counts(settings: Numbers, new: list[str], lost: list[str]) -> str:
    return f"{len(new)} new" if settings.lost is None else f"{len(new)} new, {len(lost)} lost"


def _most(settings: Numbers) -> str:
    most = f"at most {settings.new} new"
    return most if settings.lost is None else f"{most}, {settings.lost} lost"
