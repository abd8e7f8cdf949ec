"""A text that matches a regular expression, as far as that can be had cheaply."""

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

# Typing knows nothing of the parser behind `re`; its tree is the only one that reads what `re` reads.
_PARSER = import_module("re._parser")
_MOST_REPEATS = 3
_MOST_CHARACTERS = 10_000
_CATEGORIES = {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_SPACE": "a"}
_PLAIN = "aA0 -_.x"


def matching(pattern: str) -> str | None:
    """A text in which the pattern is found; None if none was found."""
    try:
        text = "".join(_each(_PARSER.parse(pattern)))
        return text if re.search(pattern, text) else None
    except (re.error, ValueError, KeyError, StopIteration, RecursionError):
        return None


def _each(tree: Iterable[tuple[Any, Any]]) -> Iterable[str]:
    for code, argument in tree:
        yield _one(str(code), argument)


def _one(code: str, argument: Any) -> str:
    if code == "LITERAL":
        return chr(argument)
    if code in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inner = argument
        once, count = "".join(_each(inner)), least or min(int(most), _MOST_REPEATS)
        if len(once) * count > _MOST_CHARACTERS:
            raise ValueError("a text of this pattern is too long to be made up")
        return once * count
    if code == "SUBPATTERN":
        return "".join(_each(argument[-1]))
    if code == "BRANCH":
        return "".join(_each(argument[1][0]))
    if code == "IN":
        return _member(argument)
    return {"ANY": "a", "NOT_LITERAL": "a" if argument != ord("a") else "b"}.get(code, "")


def _member(choices: list[tuple[Any, Any]]) -> str:
    """A character out of a set: the first that it names, or a plain one that is not excluded."""
    code, argument = choices[0]
    if str(code) == "NEGATE":
        excluded = {str(_member([choice])) for choice in choices[1:]}
        return next(letter for letter in _PLAIN if letter not in excluded)
    if str(code) == "RANGE":
        return chr(argument[0])
    if str(code) == "CATEGORY":
        return _CATEGORIES[str(argument)]
    return chr(argument)
