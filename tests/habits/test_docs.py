"""Every setting and every column is documented, and nothing is documented that is not there."""

import json
import re
from pathlib import Path

from nightdesk.settings import Settings
from nightdesk.store import metadata

_DOCS = Path(__file__).parents[2] / "docs"


def _settings() -> dict[str, str]:
    """Each setting with its default as it would stand in nightdesk.toml."""
    return {
        f"{section}.{key}": json.dumps(default)
        for section, values in Settings().model_dump(mode="json").items()
        for key, default in values.items()
    }


def test_settings_are_documented_with_their_defaults() -> None:
    """A row per setting: | `section.key` | `default` | ..."""
    text = (_DOCS / "settings.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+\.\w+)` \| `(.+?)` \|", text, re.MULTILINE)) == _settings()


def test_tables_are_documented_with_their_columns() -> None:
    """A heading per table, ## `table`, and under it a row per column: | `column` | ..."""
    _, *sections = re.split(r"^## `(\w+)`$", (_DOCS / "tables.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    documented = {
        table: re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        for table, text in zip(sections[::2], sections[1::2], strict=True)
    }
    assert {table: sorted(columns) for table, columns in documented.items()} == {
        name: sorted(table.columns.keys()) for name, table in metadata.tables.items()
    }
