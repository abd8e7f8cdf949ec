"""Whether a task came out as its golden case expects: for each expectation, what is not met."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from nightdesk.canonical import Json, canonical
from nightdesk.playbook.golden import Between, Expect, State
from nightdesk.review.material import cut
from nightdesk.review.places import Found, scalars_at, values_at
from nightdesk.review.words import plain


@dataclass(frozen=True)
class Ended:
    """What became of the task of one case. `why` is the last thing that was said of it, `findings` what failed gates
    found, by their names."""

    state: State | str
    why: str
    draft: Json
    findings: Sequence[tuple[str, str]]
    cost_usd: Decimal
    seconds: float


def judged(expect: Expect, ended: Ended, usual: State) -> Iterator[tuple[str, str]]:
    """Each expectation by its name, with what is not met; empty where it is. `usual` is how such tasks end."""
    wanted = expect.state or ("review" if expect.fails else usual)
    differs = f"it ended as {ended.state} and not as {wanted}: {cut(ended.why, 300)}"
    yield "state", "" if ended.state == wanted else differs
    if ended.draft is None:
        return
    yield "gates", _gates(expect, ended)
    for place, value in expect.equals.items():
        yield f"{place} equals", _equals(ended.draft, place, value)
    for place, texts in expect.contains.items():
        said = _said(ended.draft, place)
        yield f"{place} contains", _listed("lacks", [text for text in texts if plain(text) not in said])
    for place, texts in expect.lacks.items():
        said = _said(ended.draft, place)
        yield f"{place} lacks", _listed("has", [text for text in texts if plain(text) in said])
    for place, between in expect.items.items():
        counts = [len(found.value) for found in values_at(ended.draft, place) if isinstance(found.value, list)]
        yield f"{place} items", _between(between, counts, "items")
    for place, between in expect.range.items():
        numbers = [found.value for found in scalars_at(ended.draft, [place]) if not isinstance(found.value, str)]
        yield f"{place} range", _between(between, numbers, "")


def _gates(expect: Expect, ended: Ended) -> str:
    failed = [name for name, _ in ended.findings]
    unexpected = [finding for name, finding in ended.findings if name not in expect.fails]
    passed = [name for name in expect.fails if name not in failed]
    return "; ".join([*unexpected, *(f"the gate {name} was to fail, and passed" for name in passed)])


def _equals(draft: Json, place: str, value: Json) -> str:
    found = [here.value for here in values_at(draft, place)]
    same = bool(found) and all(canonical(here) == canonical(value) for here in found)
    return "" if same else f"it is {cut(canonical(found[0])) if found else 'not there'}, not {cut(canonical(value))}"


def _said(draft: Json, place: str) -> str:
    found: list[Found] = list(scalars_at(draft, [place]))
    return plain("\n".join(str(here.value) for here in found))


def _listed(verb: str, texts: list[str]) -> str:
    return f"it {verb}: {', '.join(cut(text) for text in texts)}" if texts else ""


def _between(between: Between, found: Sequence[float], unit: str) -> str:
    low, high = between.min, between.max
    wrong = [number for number in found if (low is not None and number < low) or (high is not None and number > high)]
    if found and not wrong:
        return ""
    asked = [f"at {word} {bound:g}" for word, bound in (("least", low), ("most", high)) if bound is not None]
    return f"it has {wrong[0] if wrong else 'no'} {unit}".rstrip() + f", where {' and '.join(asked)} is asked for"
