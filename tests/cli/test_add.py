"""`nightdesk add`: one task, or a sheet of them."""

import json
from pathlib import Path

import openpyxl
import pytest

from tests.cli.conftest import Terminal

_DRILL = '{"name": "first"}'


def _ids(nightdesk: Terminal) -> set[str]:
    return {task["key"] for task in nightdesk("tasks", "list", "--limit", "1000", "--json").json["items"]}


def test_one_task(nightdesk: Terminal) -> None:
    added = nightdesk("add", "drill", _DRILL).out.split()
    assert added[1:] == ["queued"]
    again = nightdesk("add", "drill", _DRILL, "--json").json
    assert again == {"id": added[0], "state": "queued", "created": False}


def test_what_is_said_of_it_is_kept(nightdesk: Terminal) -> None:
    added = nightdesk(
        "add", "drill", _DRILL, "--json", "--key", "k1", "--tenant", "acme", "--priority", "p1",
        "--not-before", "2030-01-01T00:00:00+01:00", "--expires-at", "2031-01-01T00:00:00Z",
        "--callback-url", "https://example.org/told",
    ).json  # fmt: skip
    task = nightdesk("tasks", "show", added["id"], "--json").json
    assert (task["key"], task["tenant"], task["priority"]) == ("k1", "acme", "P1")
    assert task["not_before"] == "2029-12-31T23:00:00Z"
    assert task["expires_at"] == "2031-01-01T00:00:00Z"


def test_the_input_may_come_from_a_file_or_a_stream(nightdesk: Terminal) -> None:
    (nightdesk.home / "one.json").write_bytes(b'\xef\xbb\xbf{"name": "from a file"}')
    nightdesk("add", "drill", "@one.json")
    nightdesk("add", "drill", "-", stdin=b'{"name": "from a stream"}')
    nightdesk("add", "drill", "-", stdin=b'[{"name": "first of two"}, {"name": "second of two"}]')
    nightdesk("add", "drill", "-", stdin=b'{"name": "line 1"}\n\n{"name": "line 3"}\n')
    assert _ids(nightdesk) == {
        "from a file", "from a stream", "first of two", "second of two", "line 1", "line 3"
    }  # fmt: skip


def test_every_fault_of_an_input_is_named(nightdesk: Terminal) -> None:
    said = nightdesk.refuses("add", "drill", '{"nam": "x", "steps": "three"}')
    assert 'input.nam: is not a known field; did you mean "name"?' in said
    assert "input.name: is missing" in said
    assert "input.steps: must be a valid integer" in said
    assert _ids(nightdesk) == set()


def test_the_same_key_with_another_input_is_refused(nightdesk: Terminal) -> None:
    nightdesk("add", "drill", _DRILL)
    said = nightdesk.refuses("add", "drill", '{"name": "first", "steps": 5}')
    assert "differs: input.steps" in said


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ("{name: 3}", "it is not JSON"),
        ('{"name": NaN}', "NaN is no number in JSON"),
        ('{"name": "a", "name": "b"}', 'the name "name" stands there twice'),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"name": 1' + "0" * 5000 + "}", "it is not JSON"),
        ("@nowhere.json", "No such file or directory"),
        ("@latin.json", "it is not UTF-8"),
    ],
)
def test_what_is_no_json_is_refused(nightdesk: Terminal, stated: str, reason: str) -> None:
    (nightdesk.home / "latin.json").write_bytes('{"name": "Zoë"}'.encode("latin-1"))
    assert reason in nightdesk.refuses("add", "drill", stated)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--priority", "P7"), "must be P0, P1, P2 or P3"),
        (("--not-before", "tomorrow"), "must be a date and time with its zone"),
        (("--expires-at", "2030-01-01T00:00:00"), "must be a date and time with its zone"),
        (("--file", "tasks.csv"), "Give the input or a file, not both"),
    ],
)
def test_wrong_options_are_refused(nightdesk: Terminal, arguments: tuple[str, ...], reason: str) -> None:
    assert reason in nightdesk.refuses("add", "drill", _DRILL, *arguments, code=2)


def test_an_unknown_playbook_is_answered_with_the_nearest(nightdesk: Terminal) -> None:
    assert 'did you mean "drill"' in nightdesk.refuses("add", "dril", _DRILL)


def test_dry_run_checks_and_stores_nothing(nightdesk: Terminal) -> None:
    assert nightdesk("add", "drill", _DRILL, "--dry-run", "--json").json["input"]["steps"] == 3
    assert "input.name: is missing" in nightdesk.refuses("add", "drill", "{}", "--dry-run")
    sheet = _sheet(nightdesk.home / "t.csv", "name,steps\na,1\nb,many\n")
    report = nightdesk("add", "drill", "--file", sheet, "--dry-run", "--json", code=1).json
    assert (report["rows"], report["added"], report["dry_run"]) == (2, 0, True)
    assert [refused["row"] for refused in report["refused"]] == [3]
    assert _ids(nightdesk) == set()


def _sheet(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_sheet_of_many(nightdesk_on_either: Terminal) -> None:
    nightdesk = nightdesk_on_either
    rows = "".join(f"night {number},{number % 5 + 1}\n" for number in range(450))
    sheet = _sheet(nightdesk.home / "many.csv", f"name,steps\n{rows}")
    assert nightdesk("add", "drill", "--file", sheet).out == "450 rows: 450 added, 0 here already, 0 refused.\n"
    again = nightdesk("add", "drill", "--file", sheet, "--json").json
    assert (again["rows"], again["added"], again["known"], again["refused"]) == (450, 0, 450, [])
    assert nightdesk("status", "--json").json["tasks"] == {"queued": 450}


def test_refused_rows_are_reported_and_the_others_go_in(nightdesk: Terminal) -> None:
    nightdesk("add", "drill", '{"name": "taken", "steps": 9}')
    sheet = _sheet(nightdesk.home / "some.csv", "name,steps,fail\ngood,1,\nbad,many,hard\ntaken,2,\n,1,\nfine,2,bug\n")
    answer = nightdesk("add", "drill", "--file", sheet, code=1)
    assert answer.out == "5 rows: 2 added, 0 here already, 3 refused.\n"
    assert "row 3 is refused:\n  input.steps: must be a valid integer" in answer.err
    assert "  input.fail: " in answer.err
    assert "row 4 is refused:" in answer.err
    assert "input.steps: differs" in answer.err
    assert "row 5 is refused:\n  input.name: is missing" in answer.err
    assert _ids(nightdesk) == {"taken", "good", "fine"}


def test_a_sheet_in_other_formats(nightdesk: Terminal) -> None:
    lines = [json.dumps({"name": "from jsonl", "steps": 1}), "[1]", "{", ""]
    report = nightdesk("add", "drill", "--json", "--file", _sheet(nightdesk.home / "t.jsonl", "\n".join(lines)), code=1)
    assert [refused["row"] for refused in report.json["refused"]] == [2, 3]
    book = openpyxl.Workbook()
    book.active.append(["name", "steps"])  # type: ignore[union-attr]
    book.active.append(["from xlsx", 2])  # type: ignore[union-attr]
    book.save(nightdesk.home / "t.xlsx")
    nightdesk("add", "drill", "--file", "t.xlsx")
    assert _ids(nightdesk) == {"from jsonl", "from xlsx"}


def test_a_sheet_that_cannot_be_read_stores_nothing(nightdesk: Terminal) -> None:
    (nightdesk.home / "latin.csv").write_bytes(b"name\n" + b"good\n" * 300 + "Zoë\n".encode("latin-1"))
    said = nightdesk.refuses("add", "drill", "--file", "latin.csv")
    assert "line 302 is not UTF-8" in said
    assert _ids(nightdesk) == set()


def test_one_key_is_not_for_many_tasks(nightdesk: Terminal) -> None:
    sheet = _sheet(nightdesk.home / "two.csv", "name\na\nb\n")
    assert "A key names one task" in nightdesk.refuses("add", "drill", "--file", sheet, "--key", "k", code=2)
