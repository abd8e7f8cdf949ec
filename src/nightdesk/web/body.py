"""JSON from strangers, read strictly: what two readers could take differently, or a database refuse, is refused."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from nightdesk.canonical import Json
from nightdesk.playbook.faults import dotted
from nightdesk.web.problems import Problem

MAX_NODES = 100_000
MAX_MEMBERS = 10_000
MAX_INTEGER = 2**53 - 1  # what every JSON reader keeps exactly
_MAX_DIGITS = 400

# A string (or what would be one, were it closed) or one mark of structure. Possessive, and the closing quote
# optional, so that no text makes it look twice at the same place.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _Bad(ValueError):
    pass


def parse_json(raw: bytes, max_depth: int) -> Json:
    """The value in `raw`, or a 400 problem that says what is wrong with it."""
    try:
        text = raw.decode("utf-8", "strict")
        _measure(text, max_depth)
        value = _DECODER.decode(text)
        if "\\u" in text:  # only an escape can bring in what UTF-8 and JSON's own rules keep out
            _check_strings(value)
    except UnicodeDecodeError as error:
        raise _problem(f"It is not UTF-8: byte {error.start} is wrong.") from None
    except json.JSONDecodeError as error:
        raise _problem(f"It is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    except _Bad as error:
        raise _problem(str(error)) from None
    return value


def _problem(detail: str) -> Problem:
    return Problem(400, "bad-json", f"The body cannot be read. {detail}", "Send one JSON object, in UTF-8.")


def _measure(text: str, max_depth: int) -> None:
    """Refuse what is too deep or too much before the parser, which recurses, sees it."""
    depth = nodes = 0
    for found in _TOKEN.finditer(text):
        mark = found.group()
        if mark in "[{":
            depth += 1
            nodes += 1
        elif mark in "]}":
            depth -= 1
        elif mark == ",":
            nodes += 1
        if depth > max_depth:
            raise _Bad(f"It is nested more than {max_depth} deep.")
        if nodes > MAX_NODES:
            raise _Bad(f"It holds more than {MAX_NODES} values.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_MEMBERS:
        raise _Bad(f"An object in it has more than {MAX_MEMBERS} members.")
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Bad("An object in it has the same key twice.")
    return found


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise _Bad(f"It holds an integer beyond ±{MAX_INTEGER}; send such a number as a string.")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits) if len(digits) <= _MAX_DIGITS else math.inf
    if not math.isfinite(number):
        raise _Bad("It holds a number that is too large or too long.")
    # In JSON 3.0 is the integer 3, and a request that says the one is the same as one that says the other.
    return int(number) if number.is_integer() and abs(number) <= MAX_INTEGER else number


def _constant(word: str) -> NoReturn:
    raise _Bad(f"It holds {word}, which is not JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _check_strings(value: Json) -> None:
    for path, text in _strings(value, ()):
        if _UNSTORABLE.search(text):
            where = _UNSTORABLE.sub("�", dotted(path))
            raise _Bad(f"The text at {where or 'its top'} holds a NUL character or half of a surrogate pair.")


def _strings(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key
            yield from _strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*path, index))
