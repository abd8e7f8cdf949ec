"""The pages of the documentation, as a test reads them: blocks of code, tables, headings, links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_FILE = re.compile(r"`([\w./-]+\.\w+)`:\n\n?\Z")
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code. `file` is where it belongs, if the line before it ends in the file's name and a colon."""

    section: str
    language: str
    text: str
    file: str | None


@dataclass(frozen=True)
class Command:
    """A line behind `$ `, and what the page shows of its output."""

    line: str
    shown: str


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    text = text_of(page)
    return [_block(text, found) for found in _FENCE.finditer(text)]


def blocks_of(page: str, language: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


def commands(block: Block) -> Iterator[Command]:
    found = list(_COMMAND.finditer(block.text))
    assert found, f"a console block without a command: {block.text}"
    ends = [following.start() for following in found[1:]] + [len(block.text)]
    for command, end in zip(found, ends, strict=True):
        yield Command(command[1], block.text[command.end() : end])


def headings(page: str) -> list[str]:
    return [found[2] for found in _HEADING.finditer(_FENCE.sub("", text_of(page)))]


def section(page: str, heading: str) -> str:
    """What stands under the heading, up to the next one of any level."""
    text = _FENCE.sub("", text_of(page))
    [start] = [found.end() for found in _HEADING.finditer(text) if found[2] == heading]
    following = _HEADING.search(text, start)
    return text[start : following.start() if following else len(text)]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, without heads and rules."""
    lines = text.splitlines()
    found = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not line.startswith("| ---") and not following.startswith("| ---"):
            found.append([cell.strip() for cell in line.strip()[1:-1].split("|")])
    return found


def words(cell: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def _block(text: str, found: re.Match[str]) -> Block:
    before = text[: found.start()]
    file = _FILE.search(before)
    sections = [heading[2] for heading in _HEADING.finditer(_FENCE.sub("", before))]
    return Block(sections[-1] if sections else "", found[1], found[2], file[1] if file else None)
