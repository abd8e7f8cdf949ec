"""A value that satisfies a JSON schema, filled with the words of the prompt."""

import re
from collections.abc import Callable

from nightdesk.canonical import Json, canonical
from nightdesk.model.simulator.numbers import number
from nightdesk.model.simulator.texts import text
from nightdesk.model.simulator.words import Words

_DEEPEST = 8
_IN_WORDS = re.compile(r"\{([^{}]{1,200})\}")
_LIMIT = re.compile(r"\b(minLength|maxLength|minItems|maxItems): (\d{1,9})\b")
_MOST_ITEMS = 1_000


def filled(schema: Json, words: Words, marked: bool = True) -> Json:
    """The value; with `marked`, its first free text says that it is simulated. A field that repeats one
    word that the prompt gives it, as an id does, is marked only where there is no other."""
    return _Filler(schema if isinstance(schema, dict) else {}, words, marked).value()


class _Filler:
    def __init__(self, root: dict[str, Json], words: Words, marked: bool) -> None:
        self._root = root
        self._words = words
        self._to_mark = marked
        self._marks_ids = False
        self._made = 0
        self._by_type: dict[str, Callable[[dict[str, Json], str, int], Json]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": lambda schema, name, depth: int(number(schema, self._words, name, self._made, whole=True)),
            "number": lambda schema, name, depth: number(schema, self._words, name, self._made),
            "boolean": lambda schema, name, depth: self._words.number(self._made) % 2 == 0,
            "null": lambda schema, name, depth: None,
        }

    def value(self) -> Json:
        made = self._fill(self._root, "", 0)
        if self._to_mark:
            self._marks_ids, self._made = True, 0
            made = self._fill(self._root, "", 0)
        return made

    def _fill(self, raw: Json, name: str, depth: int) -> Json:
        schema = self._resolved(raw)
        self._made += 1
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][self._words.number(self._made) % len(schema["enum"])]
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self._fill(self._choice(schema[key], depth), name, depth)
        return self._by_type[_type_of(schema, depth)](schema, name, depth)

    def _resolved(self, raw: Json) -> dict[str, Json]:
        """The schema itself: references followed, `allOf` merged."""
        schema: dict[str, Json] = raw if isinstance(raw, dict) else {}
        for _ in range(_DEEPEST):
            if "$ref" not in schema:
                break
            others = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._referenced(str(schema["$ref"])), **others}
        for part in schema.get("allOf", ()):
            inner = self._resolved(part)
            properties = {**schema.get("properties", {}), **inner.get("properties", {})}
            required = [*schema.get("required", ()), *inner.get("required", ())]
            schema = {**schema, **inner, "properties": properties, "required": required, "allOf": ()}
        return {**_limits_in_words(schema.get("description")), **schema}

    def _referenced(self, reference: str) -> dict[str, Json]:
        found: Json = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            if step:
                found = found.get(step.replace("~1", "/").replace("~0", "~"), {})
        return found if isinstance(found, dict) else {}

    def _choice(self, choices: list[Json], depth: int) -> Json:
        """The first that is not null; deep down, null where that is allowed, so that a schema of itself ends."""
        is_null = [_type_of(self._resolved(choice), depth) == "null" for choice in choices]
        if depth > _DEEPEST and any(is_null):
            return choices[is_null.index(True)]
        return choices[is_null.index(False)] if not all(is_null) else choices[0]

    def _object(self, schema: dict[str, Json], name: str, depth: int) -> Json:
        properties: dict[str, Json] = schema.get("properties") or {}
        required = schema.get("required") or ()
        names = properties if depth < _DEEPEST // 2 else [key for key in properties if key in required]
        made = {key: self._fill(properties[key], key, depth + 1) for key in names}
        extra = schema.get("additionalProperties")
        for index in range(_count(schema.get("minProperties", 0)) - len(made)):
            made[f"key_{index}"] = self._fill(extra, "", depth + 1)
        return made

    def _array(self, schema: dict[str, Json], name: str, depth: int) -> Json:
        prefix = schema.get("prefixItems") or []
        made = [self._fill(item, name, depth + 1) for item in prefix]
        least, most = _count(schema.get("minItems", 0)), schema.get("maxItems")
        wanted = max(least, 2 if depth < _DEEPEST // 2 else 0)
        count = int(min(wanted, most) if most is not None else wanted)
        items = schema.get("items", {} if not prefix else False)
        while items is not False and len(made) < count:
            made.append(self._fill(items, "", depth + 1))
        return _distinct(made) if schema.get("uniqueItems") else made

    def _string(self, schema: dict[str, Json], name: str, depth: int) -> Json:
        is_id = not self._marks_ids and len(self._words.about(name).split() if name else ()) == 1
        made, is_marked = text(schema, self._words, name, self._made, self._to_mark and not is_id)
        self._to_mark = self._to_mark and not is_marked
        return made


def _limits_in_words(description: Json) -> dict[str, Json]:
    """Limits that a provider's schemas have no word for are written by its SDK into the description, in braces."""
    stated = _IN_WORDS.findall(description) if isinstance(description, str) else []
    return {name: int(number) for part in stated for name, number in _LIMIT.findall(part)}


def _count(least: Json) -> int:
    if least > _MOST_ITEMS:
        raise ValueError(f"the schema asks for {least} items at least")
    return int(least)


def _distinct(items: list[Json]) -> list[Json]:
    """Each once; a text that comes again is numbered."""
    found: dict[str, Json] = {}
    for place, item in enumerate(items):
        again = canonical(item) in found and isinstance(item, str)
        kept = f"{item} {place + 1}" if again else item
        found.setdefault(canonical(kept), kept)
    return list(found.values())


def _type_of(schema: dict[str, Json], depth: int) -> str:
    """In small letters, as Gemini's own schemas have them in capitals."""
    named = schema.get("type")
    if isinstance(named, list):
        kinds = [kind for kind in named if kind != "null"]
        named = "null" if not kinds or (depth > _DEEPEST and "null" in named) else kinds[0]
    if named is None:
        named = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(named).lower()
