"""Reading sheets: whatever is in the file, rows come out or a refusal does."""

import io
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from nightdesk.errors import Invalid
from nightdesk.intake.cells import Columns
from nightdesk.intake.sheets import Row, json_lines, listed, open_sheet, parse_json

_SCHEMA = {
    "$defs": {"Shade": {"enum": ["light", "dark"], "type": "string"}},
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "sold": {"type": "boolean"},
        "words": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "shade": {"$ref": "#/$defs/Shade"},
        "more": {"type": "object"},
        "mixed": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
}


def _rows(file: Path) -> list[Row]:
    sheet = open_sheet(file, _SCHEMA)
    rows = list(sheet.rows())
    assert len(rows) == sheet.total
    assert rows == list(sheet.rows())
    return rows


def _csv(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def _xlsx(folder: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)  # type: ignore[union-attr]
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def _refusal(file: Path) -> str:
    with pytest.raises(Invalid) as refusal:
        open_sheet(file, _SCHEMA)
    assert refusal.value.next_step
    return str(refusal.value)


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("text", " as it is ", " as it is "),
        ("text", "007", "007"),
        ("text", "  ", None),
        ("text", None, None),
        ("text", 7.0, "7"),
        ("text", True, "true"),
        ("text", datetime(2030, 1, 31, tzinfo=UTC), "2030-01-31"),
        ("text", datetime(2030, 1, 31, 22, 5, tzinfo=UTC), "2030-01-31T22:05:00+00:00"),
        ("text", date(2030, 1, 31), "2030-01-31"),
        ("text", time(22, 5), "22:05:00"),
        ("count", " 12 ", 12),
        ("count", "12.0", 12),
        ("count", "-3", -3),
        ("count", "12.5", "12.5"),
        ("count", "9" * 40, "9" * 40),
        ("count", "٣", "٣"),
        ("count", 12.0, 12),
        ("count", 12.5, 12.5),
        ("price", "12.50", 12.5),
        ("price", "1e3", 1000.0),
        ("price", "12", 12),
        ("price", "12,50", "12,50"),
        ("price", "nan", "nan"),
        ("price", 3, 3),
        ("sold", "Yes", True),
        ("sold", "FALSE", False),
        ("sold", "maybe", "maybe"),
        ("sold", 1, True),
        ("sold", True, True),
        ("words", "one|two | |three", ["one", "two", "three"]),
        ("words", "one\ntwo|both", ["one", "two|both"]),
        ("words", "one", ["one"]),
        ("words", 7, ["7"]),
        ("sizes", "36|38|large", [36, 38, "large"]),
        ("sizes", 36.0, [36]),
        ("shade", "dark", "dark"),
        ("more", '{"a": [1]}', {"a": [1]}),
        ("more", "{", "{"),
        ("mixed", "12", "12"),
        ("unknown", "12", "12"),
    ],
)
def test_cells_become_what_their_column_holds(column: str, cell: object, value: object) -> None:
    found = Columns(_SCHEMA).value(column, cell)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("form", ["text,count\na b,1\n", "\ufefftext;count\r\na b;1\r\n", "text\tcount\na b\t1"])
def test_csv_of_any_country(tmp_path: Path, form: str) -> None:
    assert _rows(_csv(tmp_path, form)) == [Row(2, {"text": "a b", "count": 1})]


def test_csv_rows_are_numbered_as_people_see_them(tmp_path: Path) -> None:
    text = 'text,count\n"two\nlines",1\n\n , \nlast,\ntoo,2,many\nfine,3,\n'
    assert _rows(_csv(tmp_path, text)) == [
        Row(2, {"text": "two\nlines", "count": 1}),
        Row(5, {"text": "last"}),
        Row(6, {}, (("", "has 3 cells, but the first row names 2"),)),
        Row(7, {"text": "fine", "count": 3}),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its first row, which names the fields, is empty"),
        (b"\n\ntext\n", "its first row, which names the fields, is empty"),
        (b"text,text\n", "column text: stands there twice"),
        (b"text,,count\n", "column 2: has no name"),
        (b"text\nfine\n\xff\n", "line 3 is not UTF-8, at byte 1 of the line"),
        ("text\nfine\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b'text\n"never closed\n', "line 2"),
        (b'text\n"a" b\n', "line 2"),
        (b"text\n" + b"x" * 200_000 + b"\n", "field larger than field limit"),
        (b"text\n" + b"x" * 5_000_000, "line 2 is longer than 4 MiB"),
    ],
)
def test_csv_that_cannot_be_read(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in _refusal(_csv(tmp_path, content))


def test_jsonl(tmp_path: Path) -> None:
    text = '{"text": "a"}\n\n[1]\n{"count": 1, "count": 2}\n{"price": Infinity}\n{"text": "last"}'
    rows = _rows(_csv(tmp_path, text, "t.jsonl"))
    assert [row.number for row in rows] == [1, 3, 4, 5, 6]
    assert [row.input for row in rows if not row.faults] == [{"text": "a"}, {"text": "last"}]
    assert [row.faults[0][1] for row in rows if row.faults] == [
        "is not a JSON object",
        'is not JSON: the name "count" stands there twice',
        "is not JSON: Infinity is no number in JSON",
    ]
    assert "line 2 is not UTF-8" in _refusal(_csv(tmp_path, b'{"text": "a"}\n\xff', "t.jsonl"))


def test_xlsx(tmp_path: Path) -> None:
    file = _xlsx(
        tmp_path,
        ["text", "count", "price", "sold", "words", None],
        [12345, 7, 1.5, True, "a|b"],
        [],
        ["x", None, "#N/A", None, None],
        ["y", None, None, None, None, "beside"],
    )
    rows = _rows(file)
    assert rows[0] == Row(2, {"text": "12345", "count": 7, "price": 1.5, "sold": True, "words": ["a", "b"]})
    assert [row.number for row in rows] == [2, 4, 5]
    assert rows[1].faults == (("price", "holds the spreadsheet's error #N/A"),)
    assert rows[2].faults == (("", "has 6 cells, but the first row names 5"),)


def test_xlsx_that_cannot_be_read(tmp_path: Path) -> None:
    assert "damaged, or no .xlsx file" in _refusal(_csv(tmp_path, b"text\nfine\n", "t.xlsx"))
    with (
        zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/bomb.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(600):
            part.write(bytes(1024 * 1024))
    assert "larger than 512 MiB" in _refusal(tmp_path / "t.xlsx")


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "no .csv, .jsonl or .xlsx file" in _refusal(_csv(tmp_path, "x", "t.xls"))
    assert "there is no such file" in _refusal(tmp_path / "nowhere.csv")
    assert "there is no such file" in _refusal(tmp_path)


def test_lists_and_streams_are_sheets() -> None:
    assert list(listed([{"a": 1}, 2]).rows()) == [Row(1, {"a": 1}), Row(2, {}, (("", "is not a JSON object"),))]
    lines = json_lines('{"a": 1}\n{"a": 2}\n')
    assert lines is not None
    assert [row.input for row in lines.rows()] == [{"a": 1}, {"a": 2}]
    assert json_lines('{\n"a": 1,\n}') is None


@given(st.text())
def test_any_text_is_json_or_a_value_error(text: str) -> None:
    try:
        parse_json(text)
    except ValueError:
        return


def _mangled(whole: bytes) -> st.SearchStrategy[bytes]:
    """A good file with a stretch of it replaced."""
    return st.builds(
        lambda start, junk, gone: whole[:start] + junk + whole[start + gone :],
        st.integers(0, len(whole)), st.binary(max_size=50), st.integers(0, 200),
    )  # fmt: skip


def _good_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["text", "count"])  # type: ignore[union-attr]
    book.active.append(["fine", 1])  # type: ignore[union-attr]
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _unpacked(member: str, change: Callable[[bytes], bytes]) -> bytes:
    """The good file with one of its parts changed before it is packed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_XLSX)) as good, zipfile.ZipFile(stream, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, change(good.read(name)) if name == member else good.read(name))
    return stream.getvalue()


_XLSX = _good_xlsx()
_PARTS = zipfile.ZipFile(io.BytesIO(_XLSX)).namelist()
_SCRAMBLED_XLSX = st.builds(
    lambda member, start, junk: _unpacked(member, lambda part: part[: start % len(part)] + junk + part[start:]),
    st.sampled_from(_PARTS), st.integers(0, 3000), st.binary(max_size=30),
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from([".csv", ".jsonl", ".xlsx"]).flatmap(
        lambda suffix: st.tuples(
            st.just(suffix),
            st.one_of(
                st.binary(max_size=300),
                st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
                _mangled(b'\xef\xbb\xbftext,count\n"a\nb",1\n' if suffix != ".xlsx" else _XLSX),
                _SCRAMBLED_XLSX if suffix == ".xlsx" else st.binary(max_size=10),
            ),
        )
    )
)
def test_any_bytes_give_rows_or_a_refusal(tmp_path: Path, content: tuple[str, bytes]) -> None:
    suffix, data = content
    file = _csv(tmp_path, data, f"any{suffix}")
    try:
        total = open_sheet(file, _SCHEMA).total
    except Invalid:
        assert _refusal(file)
    else:
        assert len(_rows(file)) == total
