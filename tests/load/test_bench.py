"""`make bench` runs, and keeps the README's table. What it finds is judged by whoever runs it in full."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.figures import Figure, Report, at_least, at_most, write_between_marks

_ROOT = Path(__file__).parents[2]


def _bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=580, check=False)


@pytest.mark.timeout(600)
def test_a_quick_run_measures_everything_on_both_databases() -> None:
    ran = _bench("--quick")
    assert ran.returncode == 0, ran.stderr
    lines = dict(re.findall(r"^│ ([^│]+?) +│(.+)$", ran.stdout, re.MULTILINE))
    assert len(lines) == 34, lines.keys()
    silent = "· of one that fell silent, so that only its lease tells"
    measured = {name: [bool(cell.strip()) for cell in cells.split("│")[:2]] for name, cells in lines.items()}
    assert {name: both for name, both in measured.items() if not all(both)} == {silent: [False, True]}
    assert "Postgres 1" in ran.stdout


def test_an_unknown_part_is_answered_with_the_known_ones() -> None:
    refused = _bench("nonsense")
    assert refused.returncode == 2
    assert "there is no part nonsense; known are work, intake" in refused.stderr


def test_only_a_full_run_is_written_into_the_readme() -> None:
    assert _bench("--quick", "--write").returncode == 2


def _report() -> Report:
    report = Report(["SQLite", "Postgres"])
    report.add("SQLite", Figure("tasks per second", 812.4), Figure("ratio", 0.61, at_least(0.7)))
    report.add("Postgres", Figure("tasks per second", 1200), Figure("ratio", 0.7, at_least(0.7)))
    report.add("Postgres", Figure("ms", 31.25, at_most(30)))
    return report


def test_the_table_has_a_line_for_each_figure_and_marks_what_is_missed() -> None:
    assert _report().as_markdown().splitlines() == [
        "|  | SQLite | Postgres | goal |",
        "| --- | ---: | ---: | ---: |",
        "| tasks per second | 812 | 1,200 |  |",
        "| ratio | 0.61 (missed) | 0.70 | ≥ 0.7 |",
        "| ms |  | 31.2 (missed) | ≤ 30 |",
    ]


def test_missed_goals_are_named() -> None:
    assert _report().missed == ["SQLite: ratio is 0.61, the goal ≥ 0.7.", "Postgres: ms is 31.25, the goal ≤ 30."]


def test_the_table_takes_the_place_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n", encoding="utf-8")
    write_between_marks(page, "new")
    assert page.read_text(encoding="utf-8") == "before\n<!-- bench -->\nnew\n<!-- /bench -->\nafter\n"


def test_a_page_without_the_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("nothing here\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no place for the table"):
        write_between_marks(page, "new")
    assert page.read_text(encoding="utf-8") == "nothing here\n"
