"""The short notation for types: what it lets through, and how strictly."""

import math
from datetime import date
from typing import Any

import pytest

from nightdesk.errors import Invalid
from nightdesk.playbook import Playbook, playbook


def taking(**fields: Any) -> Playbook:
    @playbook("x", input=fields)
    async def work(order: Any, desk: Any) -> None: ...

    return work


def faults(book: Playbook, raw: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        book.check_input(raw)
    return dict(refusal.value.faults)


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("string", ["", "a", "ü", "5"], [5, True, None, ["a"]]),
        ("int", [0, -7, 10**15], ["5", 5.5, True, None, 10**15 + 1]),
        ("number", [0.1, -7.5, 1e15], ["5", True, None, math.nan, math.inf, 1e16]),
        ("boolean", [True, False], [0, 1, "true", None]),
        ("date", ["2024-02-29"], ["2023-02-29", 5, "today", None]),
        ("datetime", ["2024-02-29T04:00:00Z"], ["2024-02-29T04:00:00", "now", None]),
        ("any", [None, 1, {"a": [True]}], [{"a": math.nan}, "\0"]),
        ("string?", [None, "a"], [1]),
        (["int"], [[], [1, 2]], [1, ["1"], [None]]),
        ([{"a": "int"}], [[{"a": 1}]], [[{"a": "1"}], [{}]]),
        ({"type": "string", "value": "int"}, [{"type": "t", "value": 1}], [{"type": "t"}]),
        ({"one_of": ["a", "b"]}, ["a", "b"], ["c", None, 1]),
        ({"type": "int", "min": 1, "max": 9}, [1, 9], [0, 10, True]),
        ({"type": "number", "min": 0.5}, [0.5, 3.5], [0.4]),
        ({"type": "string", "min": 1, "max": 2}, ["a", "ab"], ["", "abc"]),
        ({"type": ["string"], "max": 1}, [[], ["a"]], [["a", "b"]]),
    ],
)
def test_a_type_takes_what_it_says_and_nothing_else(type_: Any, good: list[Any], bad: list[Any]) -> None:
    book = taking(field=type_)
    for value in good:
        assert book.check_input({"field": value}) == {"field": value}
    for value in bad:
        assert all(path.startswith("field") for path in faults(book, {"field": value}))


def test_every_fault_is_named_with_its_path() -> None:
    book = taking(title="string", bullets=["string"], shop={"name": "string", "size": "int"})
    found = faults(book, {"title": 1, "bullets": ["a", 2, "\0"], "shop": {"name": "a"}, "bullet": "x"})
    assert found == {
        "title": "must be a valid string",
        "bullets[1]": "must be a valid string",
        "bullets[2]": "must not contain the character NUL",
        "shop.size": "is missing",
        "bullet": 'is not a known field; did you mean "bullets"?',
    }


def test_an_unknown_field_inside_a_mapping_is_answered_with_that_mapping_s_fields() -> None:
    found = faults(taking(name="string", shops=[{"size": "int"}]), {"name": "a", "shops": [{"size": 1, "name": "b"}]})
    assert found == {"shops[0].name": "is not a known field; known are size"}


@pytest.mark.parametrize("raw", [None, 5, "text", [], [{"a": 1}], True])
def test_an_input_that_is_no_mapping_is_refused(raw: Any) -> None:
    assert faults(taking(a="int"), raw) == {"": "must be a mapping of names to values"}


@pytest.mark.parametrize("raw", [object(), {1, 2}, b"bytes", (1,)])
def test_python_values_that_are_no_json_are_refused(raw: Any) -> None:
    assert "is not JSON" in faults(taking(a="any"), {"a": raw})["a"]


def test_a_name_that_is_no_text_is_refused() -> None:
    assert faults(taking(a="any"), {"a": {1: 2}}) == {"a": "has a name that is not text"}


def test_deep_nesting_is_refused_without_a_crash() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    [(path, fault)] = faults(taking(a="any"), {"a": deep}).items()
    assert path.startswith("a[0][0]")
    assert fault == "is nested more than 100 deep"


def test_lone_surrogates_are_replaced() -> None:
    assert taking(a="string").check_input({"a": "x\ud800"}) == {"a": "x\ufffd"}


def test_defaults_are_filled_in_and_stay_apart() -> None:
    book = taking(
        day={"type": "date", "default": "2024-01-31"},
        tags={"type": ["string"], "default": ["new"]},
        kind={"one_of": ["a", "b"], "default": "b"},
        note={"type": "string", "default": None},
    )
    first, second = book.load_input({}), book.load_input({})
    assert book.check_input({}) == {"day": "2024-01-31", "tags": ["new"], "kind": "b", "note": None}
    assert getattr(first, "day") == date(2024, 1, 31)  # noqa: B009  # the model's fields are known only at run time
    assert getattr(first, "tags") is not getattr(second, "tags")  # noqa: B009


def test_what_was_checked_is_checked_again_to_the_same() -> None:
    book = taking(a="number", b="date?", c=[{"d": {"type": "int", "default": 3}}])
    once = book.check_input({"a": 5, "b": "2024-01-31", "c": [{}]})
    assert book.check_input(once) == once


def test_fields_may_be_called_like_pydantic_s_own_methods() -> None:
    book = taking(copy="string", json="int", schema="boolean")
    values = {"copy": "text", "json": 1, "schema": True}
    assert book.check_input(values) == values


def type_faults(type_: Any) -> list[str]:
    with pytest.raises(Invalid) as refusal:
        taking(field=type_)
    return [fault for _, fault in refusal.value.faults]


@pytest.mark.parametrize(
    ("type_", "fault"),
    [
        ("strng", '`input.field` has the unknown type `strng`; did you mean "string"?'),
        (
            "wat",
            "`input.field` has the unknown type `wat`; known are any, boolean, date, datetime, int, number, string",
        ),
        (["string?"], "`input.field` can have `?` only on a field of its own; nothing inside a list can be left out"),
        (5, "`input.field` must be a type: "),
        ([], "`input.field` must be a type: "),
        (["int", "int"], "`input.field` must be a type: "),
        ({"inner": "itn"}, '`input.field.inner` has the unknown type `itn`; did you mean "int"?'),
        ({"model_dump": "int"}, "`input.field.model_dump` cannot be a field name"),
        ({"_x": "int"}, "`input.field._x` cannot be a field name"),
        ({"a b": "int"}, "`input.field.a b` cannot be a field name"),
        ({"one_of": []}, "`input.field.one_of` must be a list of words"),
        ({"one_of": ["a", True]}, "`input.field.one_of` must be a list of words"),
        ({"one_of": ["a"], "min": 1}, "`input.field` can have nothing beside one_of but a default"),
        ({"one_of": ["a"], "default": "b"}, "`input.field.default` must be 'a'"),
        ({"type": "int", "default": "5"}, "`input.field.default` must be a valid integer"),
        ({"type": "int", "min": 3, "default": 2}, "`input.field.default` must be greater than or equal to 3"),
        ({"type": "int", "min": "1"}, "`input.field.min` must be a valid integer"),
        ({"type": "int", "max": 1.5}, "`input.field.max` must be a valid integer"),
        ({"type": "number", "max": True}, "`input.field.max` must be a valid number"),
        ({"type": "int", "min": 5, "max": 4}, "`input.field` has a min above its max"),
        ({"type": "string", "max": -1}, "`input.field.max` must be greater than or equal to 0"),
        ({"type": "string", "max": 1.5}, "`input.field.max` must be a valid integer"),
        ({"type": "date", "min": 1}, "`input.field` can have min and max only as string, int, number or list"),
        ({"type": "int", "defualt": 3}, "`input.field.defualt` must be a type: "),
    ],
)
def test_a_wrong_type_is_refused(type_: Any, fault: str) -> None:
    [found] = type_faults(type_)
    assert found.startswith(fault)


def test_input_must_be_a_mapping_of_fields() -> None:
    with pytest.raises(Invalid, match="`input` must be a mapping of field names to types"):
        playbook("x", input={"type": "string"})(_work)


async def _work(order: Any, desk: Any) -> None: ...
