"""What was measured, held against its goal, as a table for people and for the README."""

from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

_MARKS = ("<!-- bench -->", "<!-- /bench -->")


@dataclass(frozen=True)
class Goal:
    limit: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:,g}"


def at_least(limit: float) -> Goal:
    return Goal(limit, at_least=True)


def at_most(limit: float) -> Goal:
    return Goal(limit)


@dataclass(frozen=True)
class Figure:
    """One line of the table in one column of it. The name says the unit."""

    name: str
    value: float
    goal: Goal | None = None

    @property
    def is_missed(self) -> bool:
        return self.goal is not None and not self.goal.is_met(self.value)

    @property
    def text(self) -> str:
        digits = 0 if abs(self.value) >= 100 or self.value == int(self.value) else 1 if abs(self.value) >= 10 else 2
        return f"{self.value:,.{digits}f}{' (missed)' if self.is_missed else ''}"


@dataclass
class Report:
    """The figures, by line and column, in the order in which they came."""

    columns: list[str]
    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)

    def add(self, column: str, *figures: Figure) -> None:
        for figure in figures:
            self.figures.setdefault(figure.name, {})[column] = figure

    @property
    def missed(self) -> list[str]:
        """The goals that were missed, a sentence each."""
        return [
            f"{column}: {name} is {figure.value:,.4g}, the goal {figure.goal}."
            for name, line in self.figures.items()
            for column, figure in line.items()
            if figure.is_missed
        ]

    @property
    def lines(self) -> list[list[str]]:
        return [
            [name, *(self._cell(line, column) for column in self.columns), _goals(line)] for name, line in self._all
        ]

    def as_table(self) -> Table:
        table = Table(title="Nightdesk, measured")
        table.add_column("")
        for column in (*self.columns, "goal"):
            table.add_column(column, justify="right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def as_markdown(self) -> str:
        head = ["", *self.columns, "goal"]
        rule = ["---", *("---:" for _ in head[1:])]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *self.lines])

    @property
    def _all(self) -> list[tuple[str, dict[str, Figure]]]:
        return list(self.figures.items())

    @staticmethod
    def _cell(line: dict[str, Figure], column: str) -> str:
        return line[column].text if column in line else ""


def _goals(line: dict[str, Figure]) -> str:
    return " / ".join(dict.fromkeys(str(figure.goal) for figure in line.values() if figure.goal))


def write_between_marks(page: Path, text: str) -> None:
    """Put the text where the page has the marks for it, in place of what stands there."""
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(_MARKS[0])
    _, end, after = rest.partition(_MARKS[1])
    if not end:
        raise SystemExit(f"{page.name} has no place for the table. Give it a line {_MARKS[0]} and a line {_MARKS[1]}.")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
