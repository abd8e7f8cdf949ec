"""Sheets of many tasks: csv, jsonl, xlsx. Read row by row, so that a sheet of any length needs little memory.

A file that cannot be read is refused as a whole, before its first row is used: it is gone through once to see
and to count. A row that cannot be used comes with its faults, and the others go on.
"""

import csv
import json
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.intake.cells import Columns

_LONGEST_LINE = 4 * 1024 * 1024
_LARGEST_UNPACKED = 512 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SAVE_AS = "Save the sheet as CSV in UTF-8, or as .xlsx, and add it again."


@dataclass(frozen=True)
class Row:
    """One task of a sheet. `number` is what a person sees beside it: the row of a sheet, the line of a jsonl file."""

    number: int
    input: dict[str, Json]
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sheet:
    """The rows, to be gone through once or more, and how many there are."""

    total: int
    rows: Callable[[], Iterator[Row]]


@dataclass(frozen=True)
class _Broken:
    """A cell in which the spreadsheet itself shows an error, such as #N/A."""

    shows: str


def open_sheet(file: Path, schema: Mapping[str, Json]) -> Sheet:
    """The sheet, its cells converted as the JSON schema of the playbook's input asks. Raises Invalid."""
    if not file.is_file():
        raise _unreadable(file, "there is no such file", "Look at its name and folder.")
    match file.suffix.lower():
        case ".csv" | ".tsv":
            return _table(file, lambda: _csv_records(file), Columns(schema))
        case ".xlsx":
            return _table(file, lambda: _xlsx_records(file), Columns(schema))
        case ".jsonl" | ".ndjson":
            return Sheet(sum(1 for line in _lines(file) if line.strip()), lambda: _jsonl_rows(_lines(file)))
    raise _unreadable(file, "it is no .csv, .jsonl or .xlsx file")


def listed(values: list[Json]) -> Sheet:
    """A JSON list of inputs as a sheet."""
    return Sheet(len(values), lambda: (_object_row(number, value) for number, value in enumerate(values, 1)))


def json_lines(text: str) -> Sheet | None:
    """Text with a JSON object on each line as a sheet; None when it does not begin as such."""
    lines = text.splitlines()
    found = Sheet(sum(1 for line in lines if line.strip()), lambda: _jsonl_rows(iter(lines)))
    return found if found.total > 1 and not next(found.rows()).faults else None


def parse_json(text: str) -> Json:
    """JSON as the standard has it; ValueError for anything else, such as NaN or a name that stands there twice."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twins)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _no_twins(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twin, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {json.dumps(twin)} stands there twice")
    return found


def _jsonl_rows(lines: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _jsonl_row(number, line)


def _jsonl_row(number: int, line: str) -> Row:
    try:
        value = parse_json(line)
    except ValueError as error:
        return Row(number, {}, (("", f"is not JSON: {error}"),))
    return _object_row(number, value)


def _object_row(number: int, value: Json) -> Row:
    if not isinstance(value, dict):
        return Row(number, {}, (("", "is not a JSON object"),))
    return Row(number, value)


def _table(file: Path, records: Callable[[], Iterator[list[Any]]], columns: Columns) -> Sheet:
    """A table: the names of the fields in its first row, a task in each of the others that is not empty."""
    passed = records()
    header = _header(file, next(passed, []))
    total = sum(1 for cells in passed if not _is_empty(cells))
    return Sheet(total, lambda: _table_rows(header, records(), columns))


def _header(file: Path, cells: list[Any]) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise _unreadable(file, "its first row, which names the fields, is empty")
    faults = [(f"column {place}", "has no name") for place, name in enumerate(names, 1) if not name]
    faults += [(f"column {name}", "stands there twice") for name, count in Counter(names).items() if name and count > 1]
    if faults:
        raise Invalid(f"The first row of {file.name} does not name the fields", faults, "Mend it and add it again.")
    return names


def _table_rows(header: list[str], records: Iterator[list[Any]], columns: Columns) -> Iterator[Row]:
    next(records, None)
    for number, cells in enumerate(records, 2):
        if not _is_empty(cells):
            yield _table_row(number, header, cells, columns)


def _table_row(number: int, header: list[str], cells: list[Any], columns: Columns) -> Row:
    faults = [
        (name, f"holds the spreadsheet's error {cell.shows}")
        for name, cell in zip(header, cells, strict=False)
        if isinstance(cell, _Broken)
    ]
    if not _is_empty(cells[len(header) :]):
        faults.append(("", f"has {len(cells)} cells, but the first row names {len(header)}"))
    if faults:
        return Row(number, {}, tuple(faults))
    found = ((name, columns.value(name, cell)) for name, cell in zip(header, cells, strict=False))
    return Row(number, {name: value for name, value in found if value is not None})


def _is_empty(cells: list[Any]) -> bool:
    return all(cell is None or (isinstance(cell, str) and not cell.strip()) for cell in cells)


def _csv_records(file: Path) -> Iterator[list[Any]]:
    with file.open("rb") as stream:
        first = stream.readline(_LONGEST_LINE)
    delimiter = max((b",", b";", b"\t"), key=first.count).decode()  # spreadsheets of half the world write `;`
    reader = csv.reader(_lines(file), delimiter=delimiter, strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise _unreadable(file, f"line {reader.line_num}: {error}", "Mend that line and add it again.") from None


def _lines(file: Path) -> Iterator[str]:
    """The lines with their ends, without a byte-order mark."""
    with file.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE + 1), b""), 1):
            if len(line) > _LONGEST_LINE:
                raise _unreadable(file, f"line {number} is longer than 4 MiB")
            try:
                yield (line.removeprefix(_BOM) if number == 1 else line).decode("utf-8")
            except UnicodeDecodeError as error:
                fault = f"line {number} is not UTF-8, at byte {error.start + 1} of the line"
                raise _unreadable(file, fault) from None


def _xlsx_records(file: Path) -> Iterator[list[Any]]:
    """The rows of the first sheet. openpyxl fails in any way it likes on a file that is damaged, and leaves it open."""
    try:
        with file.open("rb") as stream:
            _require_small(file, stream)
            yield from _cells_of(stream)
    except Invalid:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise _unreadable(file, f"it is damaged, or no .xlsx file: {reason}") from None


def _require_small(file: Path, stream: BinaryIO) -> None:
    with zipfile.ZipFile(stream) as archive:
        if sum(part.file_size for part in archive.infolist()) > _LARGEST_UNPACKED:
            raise _unreadable(file, "unpacked it is larger than 512 MiB", "Split it.")


def _cells_of(stream: BinaryIO) -> Iterator[list[Any]]:
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and extensions, which do not matter here
        book = load_workbook(stream, read_only=True, data_only=True)
    try:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what a file says of its own size is often wrong
        for row in sheet.iter_rows():
            yield [_Broken(str(cell.value)) if cell.data_type == "e" else cell.value for cell in row]
    finally:
        book.close()


def _unreadable(file: Path, why: str, next_step: str = _SAVE_AS) -> Invalid:
    return Invalid(f"{file.name} cannot be read", [("", why)], next_step)
