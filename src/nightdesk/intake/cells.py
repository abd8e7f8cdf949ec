"""Turning the cells of a sheet, which are mostly text, into the types that a playbook's input asks for.

A cell that does not fit its type stays as it is: the playbook's own check then names it, like any other fault.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time

from nightdesk.canonical import Json

_TRUE = frozenset(("true", "yes", "y", "1", "x"))
_FALSE = frozenset(("false", "no", "n", "0"))
_WHOLE = re.compile(r"[+-]?\d{1,18}(\.0{1,9})?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d{1,32}(\.\d{0,32})?|\.\d{1,32})([eE][+-]?\d{1,3})?", re.ASCII)


class Columns:
    """What each column of a sheet holds, read from the JSON schema of the playbook's input."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self._definitions: Mapping[str, Json] = schema.get("$defs", {})
        self._fields: Mapping[str, Json] = schema.get("properties", {})

    def value(self, column: str, cell: object) -> Json:
        """The cell as the column's type wants it; None when the cell is empty, which means absent."""
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return None
        field = self._resolved(self._fields.get(column, {}))
        if isinstance(cell, str):
            return self._from_text(field, cell)
        return self._from_number(field, cell) if isinstance(cell, int | float) else _from_time(cell)

    def _from_text(self, field: Mapping[str, Json], cell: str) -> Json:
        if field.get("type") == "array":
            items = self._resolved(field.get("items", {}))
            parts = cell.split("\n") if "\n" in cell else cell.split("|")
            return [self._from_text(items, part.strip()) for part in parts if part.strip()]
        convert = _FROM_TEXT.get(str(field.get("type")))
        return convert(cell) if convert else cell

    def _from_number(self, field: Mapping[str, Json], cell: int | float) -> Json:
        """Spreadsheets keep 7 as 7.0, and an article number as a number."""
        if field.get("type") == "array":
            return [self._from_number(self._resolved(field.get("items", {})), cell)]
        if isinstance(cell, float) and cell.is_integer() and field.get("type") != "number":
            cell = int(cell)
        if field.get("type") == "string":
            return json.dumps(cell)
        return bool(cell) if field.get("type") == "boolean" and cell in (0, 1) else cell

    def _resolved(self, field: Mapping[str, Json]) -> Mapping[str, Json]:
        """Follow a reference, and of `this or null` take this."""
        for _ in range(10):
            if "$ref" in field:
                field = self._definitions.get(str(field["$ref"]).rpartition("/")[2], {})
            elif choices := [one for one in field.get("anyOf", []) if one.get("type") != "null"]:
                field = choices[0] if len(choices) == 1 else {}
        return field


def _whole(cell: str) -> Json:
    text = cell.strip()
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else cell


def _number(cell: str) -> Json:
    text = cell.strip()
    if _WHOLE.fullmatch(text):
        return _whole(text)
    return float(text) if _DECIMAL.fullmatch(text) else cell


def _boolean(cell: str) -> Json:
    word = cell.strip().lower()
    return word in _TRUE if word in _TRUE | _FALSE else cell


def _object(cell: str) -> Json:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


_FROM_TEXT: dict[str, Callable[[str], Json]] = {
    "integer": _whole,
    "number": _number,
    "boolean": _boolean,
    "object": _object,
}


def _from_time(cell: object) -> Json:
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)
