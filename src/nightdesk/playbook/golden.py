"""Golden cases: inputs that a playbook must do well, one JSON object per line, and what is expected of each.

{"name": "…", "input": {…}, "expect": {"contains": {"title": "Merino"}, "items": {"bullets": {"min": 3}}}}

Expected without being said: the task ends as such tasks do, and its draft passes every gate.
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.playbook.code import read_text, shown
from nightdesk.playbook.definition import Playbook
from nightdesk.playbook.faults import dotted, found_by_pydantic, no_such_field
from nightdesk.playbook.gates import Place
from nightdesk.playbook.statement import Part, Text


def _texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


State = Literal["done", "review", "person", "dead"]
Texts = Annotated[list[Text], BeforeValidator(_texts), Field(min_length=1)]


class Between(Part):
    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> "Between":
        if self.min is None and self.max is None:
            raise ValueError("must state `min`, `max` or both")
        return self


class Expect(Part):
    """By fields of the output. `state` and `fails` (gates) are for inputs that should not come through: `person` is a
    task that comes to the desk without a draft."""

    state: State | None = None
    fails: list[Text] = Field(default=[])
    equals: dict[Place, Json] = Field(default={})
    contains: dict[Place, Texts] = Field(default={})
    lacks: dict[Place, Texts] = Field(default={})
    items: dict[Place, Between] = Field(default={})
    range: dict[Place, Between] = Field(default={})

    @property
    def places(self) -> set[str]:
        return {place for part in (self.equals, self.contains, self.lacks, self.items, self.range) for place in part}


class _Line(Part):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    input: Json
    expect: Expect = Expect()


@dataclass(frozen=True)
class Case:
    name: str
    input: Json
    expect: Expect


def read_golden(playbook: Playbook) -> list[Case]:
    """The playbook's golden cases; none if it has no file of them. Every fault of the file is named with its line."""
    stated = playbook.definition.get("golden")
    if not stated or playbook.source is None:
        return []
    file = playbook.source.parent / str(stated)
    faults: list[tuple[str, str]] = []
    found: list[Case] = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if line.strip():
            found += _case(playbook, line, f"{shown(file)} line {number}", faults)
    twice = [name for name, count in Counter(case.name for case in found).items() if count > 1]
    faults += [(shown(file), f"has several cases called {name}") for name in twice]
    if faults:
        raise Invalid(f"The golden cases of {playbook.name} are not valid", faults, "Correct the file.")
    return found


def _case(playbook: Playbook, line: str, place: str, faults: list[tuple[str, str]]) -> list[Case]:
    try:
        stated = _Line.model_validate(json.loads(line))
        case = Case(stated.name, playbook.check_input(stated.input), stated.expect)
    except ValidationError as error:
        faults += [(place, f"`{dotted(path)}` {text}") for path, text in found_by_pydantic(error, _Line, "key")]
    except ValueError as error:
        faults.append((place, f"is not JSON: {error}"))
    except Invalid as error:
        faults += [(place, f"`input.{path}` {text}" if path else text) for path, text in error.faults]
    else:
        faults += [(place, text) for text in _misplaced(playbook, case.expect)]
        return [case]
    return []


def _misplaced(playbook: Playbook, expect: Expect) -> list[str]:
    if playbook.output is None:
        return []
    found = ((place, no_such_field(playbook.output, place, "the output", inside_any=True)) for place in expect.places)
    return [f"expects something of {place}, but {text}" for place, text in sorted(found) if text]
