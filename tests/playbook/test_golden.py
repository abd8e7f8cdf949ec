"""Golden cases: a line each, held against the playbook's input and output before anything is asked."""

import json
from pathlib import Path

import pytest

from nightdesk.errors import Invalid
from nightdesk.playbook.golden import Between, Case, Expect, read_golden
from tests.support.playbooks import loaded, write_yaml

YAML = """\
name: x
input: {brand: string, count: {type: int, default: 3}}
output: {title: string, claims: [{claim: string, source: string}]}
golden: golden.jsonl
"""


def cases_of(home: Path, *lines: object) -> list[Case]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines)
    write_yaml(home, YAML).with_name("golden.jsonl").write_text(text, encoding="utf-8")
    return read_golden(loaded(home))


def refused_of(home: Path, *lines: object) -> list[str]:
    with pytest.raises(Invalid) as refusal:
        cases_of(home, *lines)
    return [f"{place}: {fault}" for place, fault in refusal.value.faults]


def test_a_case_is_an_input_and_what_is_expected(tmp_path: Path) -> None:
    first, second = cases_of(
        tmp_path,
        {"name": "plain", "input": {"brand": "F"}},
        "",
        {
            "name": "with \u2028 more",
            "input": {"brand": "F", "count": 5},
            "expect": {"contains": {"title": "F"}, "items": {"claims": {"min": 1}}, "fails": ["length"]},
        },
    )
    assert first == Case("plain", {"brand": "F", "count": 3}, Expect())
    assert second.expect.contains == {"title": ["F"]}
    assert (second.expect.items, second.expect.fails) == ({"claims": Between(min=1)}, ["length"])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "is not JSON: "),
        ("5", "` must be a mapping of names to values"),
        ({"input": {"brand": "F"}}, "`name` is missing"),
        ({"name": "a", "input": {}}, "`input.brand` is missing"),
        ({"name": "a", "input": {"brand": "F", "cuont": 5}},
         '`input.cuont` is not a known field; did you mean "count"?'),
        ({"name": "a", "input": {"brand": "F"}, "expects": {}}, '`expects` is not a known key; did you mean "expect"?'),
        ({"name": "a", "input": {"brand": "F"}, "expect": {"contain": {}}}, 'did you mean "contains"?'),
        ({"name": "a", "input": {"brand": "F"}, "expect": {"items": {"claims": {}}}},
         "must state `min`, `max` or both"),
        ({"name": "a", "input": {"brand": "F"}, "expect": {"lacks": {"titel": "x"}}},
         "expects something of titel, but `titel` is no"),
        ({"name": "a", "input": {"brand": "F"}, "expect": {"state": "ready"}}, "`expect.state` must be 'done'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_line_is_said_with_its_number(tmp_path: Path, line: object, fault: str) -> None:
    [first, *_] = refused_of(tmp_path, {"name": "fine", "input": {"brand": "F"}}, line)
    assert first.startswith("playbooks/x/golden.jsonl line 2: ")
    assert fault in first


def test_no_two_cases_have_one_name(tmp_path: Path) -> None:
    case = {"name": "a", "input": {"brand": "F"}}
    assert refused_of(tmp_path, case, case) == ["playbooks/x/golden.jsonl: has several cases called a"]


def test_a_playbook_without_a_file_of_them_has_none_and_a_missing_file_is_said(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x")
    assert read_golden(loaded(tmp_path)) == []
    write_yaml(tmp_path, "name: x\ngolden: golden.jsonl")
    with pytest.raises(Invalid, match=r"playbooks/x/golden\.jsonl: the file cannot be read: No such file"):
        read_golden(loaded(tmp_path))
