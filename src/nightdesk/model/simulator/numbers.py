"""A number that satisfies a JSON schema, the one that the prompt gives where it fits."""

import math
import re

from nightdesk.canonical import Json
from nightdesk.model.simulator.words import Words

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_FINEST = 0.001
_SPAN = 99
# Of a division that should give a whole number and does not quite.
_TAIL = 1e-9


def number(schema: dict[str, Json], words: Words, name: str, salt: int, whole: bool = False) -> float:
    step = float(schema.get("multipleOf") or (1 if whole else _step_between(schema)))
    least, most = _steps(schema, step)
    said = _said(words, name)
    if said is not None and least * step <= said <= most * step and _is_multiple(said, schema, whole):
        return said
    first = int(least) if least > -math.inf else int(min(math.ceil(1 / step), most))
    last = max(first, int(min(most, first + math.ceil(_SPAN / step))))
    # Rounded, as the product of a decimal fraction has a tail.
    return round((first + words.number(salt) % (last - first + 1)) * step, 9)


def _is_multiple(said: float, schema: dict[str, Json], whole: bool) -> bool:
    step = schema.get("multipleOf") or (1 if whole else None)
    return step is None or math.isclose(said / step, round(said / step), abs_tol=_TAIL)


def _step_between(schema: dict[str, Json]) -> float:
    """Fine enough for numbers between the bounds, where they are close together."""
    low = _bound(schema, "minimum", _bound(schema, "exclusiveMinimum"))
    high = _bound(schema, "maximum", _bound(schema, "exclusiveMaximum"))
    return _FINEST if low is None or high is None or high <= low else min(_FINEST, (high - low) / 10)


def _steps(schema: dict[str, Json], step: float) -> tuple[float, float]:
    """The first and the last multiple of the step that lies within the bounds, infinite where there is none."""
    lows, highs = [-math.inf], [math.inf]
    if (low := _bound(schema, "minimum")) is not None:
        lows.append(math.ceil(low / step - _TAIL))
    if (above := _bound(schema, "exclusiveMinimum")) is not None:
        lows.append(math.floor(above / step + _TAIL) + 1)
    if (high := _bound(schema, "maximum")) is not None:
        highs.append(math.floor(high / step + _TAIL))
    if (below := _bound(schema, "exclusiveMaximum")) is not None:
        highs.append(math.ceil(below / step - _TAIL) - 1)
    return max(lows), min(highs)


def _bound(schema: dict[str, Json], name: str, default: float | None = None) -> float | None:
    """Not the true or false of old schemas."""
    value = schema.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _said(words: Words, name: str) -> float | None:
    """The number that the prompt gives for this name."""
    found = _NUMBER.match(words.about(name)) if name else None
    return float(found[0]) if found else None
