"""Google's own spelling of names, `maxItems`, in place of the other that it takes, `max_items`: its SDK sends both."""

import re

from nightdesk.canonical import Json

_LATER_WORD = re.compile(r"_([a-z])")
# What these hold is named by the user, and stays as it is.
_OF_THE_USER = ("properties", "defs", "$defs")


def outer_names(holder: dict[str, Json]) -> dict[str, Json]:
    """The object with its own names in that spelling; what is inside is left alone."""
    return {_spelled(name): value for name, value in holder.items()}


def all_names(value: Json) -> Json:
    """Settings, tools and schemas with every name in it in that spelling."""
    if isinstance(value, list):
        return [all_names(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {_spelled(name): _inside(name, inner) for name, inner in value.items()}


def _inside(name: str, value: Json) -> Json:
    if name in _OF_THE_USER and isinstance(value, dict):
        return {key: all_names(inner) for key, inner in value.items()}
    return all_names(value)


def _spelled(name: str) -> str:
    return "$ref" if name == "ref" else _LATER_WORD.sub(lambda match: match[1].upper(), name)
