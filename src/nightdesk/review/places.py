"""Where in a draft or an input something stands: `title`, `claims.source`, `bullets[2]`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nightdesk.canonical import Json


@dataclass(frozen=True, slots=True)
class Found:
    place: str
    value: Json


def values_at(root: Json, place: str | None) -> Iterator[Found]:
    """What stands at the place; a field of a list means that of each of its items. Without a place, the whole."""
    if place is None:
        yield Found("", root)
        return
    here = [Found("", root)]
    for part in place.split("."):
        here = [inner for outer in here for inner in _inside(outer, part)]
    yield from here


def texts_at(root: Json, places: Iterable[str | None]) -> Iterator[Found]:
    """Every text at or below the places."""
    for place in places:
        for found in values_at(root, place):
            yield from _leaves(found, (str,))


def scalars_at(root: Json, places: Iterable[str | None]) -> Iterator[Found]:
    """Every text and number at or below the places."""
    for place in places:
        for found in values_at(root, place):
            yield from _leaves(found, (str, int, float))


def items_of(found: Found) -> Iterator[Found]:
    """The items of a list, else the value itself."""
    if isinstance(found.value, list):
        yield from (Found(f"{found.place}[{number}]", item) for number, item in enumerate(found.value))
    else:
        yield found


def _inside(outer: Found, part: str) -> Iterator[Found]:
    for item in items_of(outer):
        if isinstance(item.value, dict) and part in item.value:
            yield Found(f"{item.place}.{part}".removeprefix("."), item.value[part])


def _leaves(found: Found, kinds: tuple[type, ...]) -> Iterator[Found]:
    """With a list of its own for what is still to be looked at: a draft may be nested deeply."""
    waiting = [found]
    while waiting:
        here = waiting.pop()
        if isinstance(here.value, dict):
            below = [Found(f"{here.place}.{name}".removeprefix("."), inner) for name, inner in here.value.items()]
            waiting += reversed(below)
        elif isinstance(here.value, list):
            waiting += reversed(list(items_of(here)))
        elif isinstance(here.value, kinds) and not isinstance(here.value, bool):
            yield here
