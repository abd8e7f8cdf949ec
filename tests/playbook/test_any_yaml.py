"""Whatever a file holds, reading it gives a playbook or a refusal, and nothing else."""

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings, strategies as st

from nightdesk.errors import Invalid
from nightdesk.playbook import Playbook
from nightdesk.playbook.notation import WORDS
from nightdesk.playbook.registry import load_yaml
from nightdesk.playbook.statement import Statement

KEYS = list(Statement.model_fields)
TYPES = [*WORDS, *(f"{word}?" for word in WORDS)]
INNER = ["type", "default", "min", "max", "one_of", "cron", "zone", "after", "debounce", "use", "time", "to", "task"]
TRICKY = [
    "{a}",
    "{a.b}",
    "{}",
    "* * * * *",
    "@daily",
    "R R R R R",
    "1e999",
    "9" * 40,
    "run.py:work",
    "now",
    "P1",
    "90s",
]

WORD = st.sampled_from([*KEYS, *TYPES, *INNER, *TRICKY])
SCALAR = st.one_of(
    WORD, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates().map(str)
)  # fmt: skip
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
LIMIT = st.integers(-1, 3) | st.floats(-1, 3)
TYPE = st.recursive(
    st.sampled_from(TYPES) | st.just({"one_of": ["a", "b"]}),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=1),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.fixed_dictionaries({"type": inner}, optional={"min": LIMIT, "max": LIMIT, "default": SCALAR}),
    ),
    max_leaves=6,
)


def read(content: bytes) -> Playbook | Invalid:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "playbook.yaml"
        file.write_bytes(content)
        try:
            return load_yaml(file)
        except Invalid as refusal:
            return refusal


def read_definition(stated: dict[str, Any]) -> Playbook | Invalid:
    return read(yaml.safe_dump({"name": "x", **stated}, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "nmae"]), VALUE, max_size=4))
@example({"key": "{a}", "input": {"a": "int"}, "when": {"cron": "@daily", "input": {"a": 1}}})
def test_any_definition(stated: dict[str, Any]) -> None:
    book = read_definition(stated)
    if isinstance(book, Playbook):
        assert book.name == stated.get("name", "x")
    else:
        assert book.faults


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-?!&*#|>'\"% \n\tax1.", max_size=60).map(str.encode))
def test_any_bytes(content: bytes) -> None:
    assert isinstance(read(content), Playbook | Invalid)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), TYPE, max_size=3),
    st.dictionaries(st.sampled_from("abc"), VALUE, max_size=3) | VALUE,
)
def test_any_input_of_any_type_is_taken_or_refused(types: dict[str, Any], raw: Any) -> None:
    book = read_definition({"input": types})
    if isinstance(book, Invalid):
        return
    try:
        checked = book.check_input(raw)
    except Invalid:
        return
    assert book.check_input(checked) == checked
    assert len(book.key_for(checked)) == 64
    book.load_input(checked)
