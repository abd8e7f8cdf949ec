"""The source keeps its proportions, and keeps away from what would run data as code."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import nightdesk

_ROOT = Path(nightdesk.__file__).parent
_SOURCES = {file.relative_to(_ROOT).as_posix(): ast.parse(file.read_bytes(), str(file)) for file in _ROOT.rglob("*.py")}
_MODULES_THAT_RUN_DATA = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
_CALLS_THAT_RUN_DATA = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen"}


def _function_lengths() -> dict[str, int]:
    """Migrations are left out: they are lists of columns, and never change."""
    return {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, tree in _SOURCES.items()
        if "/migrations/" not in name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_functions_are_short() -> None:
    lengths = _function_lengths()
    assert statistics.median(lengths.values()) <= 8
    assert sum(length > 40 for length in lengths.values()) <= len(lengths) / 50
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_nine_functions_in_ten_have_fewer_than_thirty_lines() -> None:
    lengths = sorted(_function_lengths().values())
    assert lengths[len(lengths) * 9 // 10] < 30


def test_no_module_has_more_than_six_hundred_lines() -> None:
    lines = {name: len((_ROOT / name).read_text(encoding="utf-8").splitlines()) for name in _SOURCES}
    assert {name: count for name, count in lines.items() if count > 600} == {}


def test_no_data_is_run_as_code() -> None:
    found = [f"{name}:{line} {what}" for name, tree in _SOURCES.items() for line, what in _dangers(tree)]
    assert found == []


def _dangers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in _MODULES_THAT_RUN_DATA)
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES_THAT_RUN_DATA:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS_THAT_RUN_DATA:
            yield node.lineno, ast.unparse(node.func)
        elif isinstance(node, ast.keyword) and node.arg == "shell":
            yield node.lineno, "shell="


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "yaml.load(file)",
        "subprocess.run('ls', shell=True)",
        "os.system('ls')",
    ],
)
def test_the_search_for_dangers_finds_them(code: str) -> None:
    assert list(_dangers(ast.parse(code)))
