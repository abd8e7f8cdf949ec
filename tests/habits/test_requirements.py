"""The pinned list is complete, has hashes, and names no place that packages come from."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_RUNTIME = _PROJECT["project"]["dependencies"]
_TOOLS = _PROJECT["dependency-groups"]["dev"]
_OURS = {"nightdesk", "tests", "bench"}
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
_PLACE = re.compile(r"^\s*-[-a-zA-Z]+ |://|file:/| @ |(^|[\s'\"])[./~]*/\w", re.MULTILINE)


def _text(name: str) -> str:
    """The file without its comments, long lines joined."""
    lines = (_ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", "")


def _pins(name: str) -> dict[str, Requirement]:
    stated = [Requirement(_HASH.sub("", line).strip()) for line in _text(name).splitlines() if line.strip()]
    return {canonicalize_name(pin.name): pin for pin in stated}


@pytest.mark.parametrize("name", ["base.txt", "dev.txt"])
def test_every_line_is_a_pin_with_hashes(name: str) -> None:
    lines = [line for line in _text(name).splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if not re.match(r"[A-Za-z0-9._-]+==\S+", line) or not _HASH.search(line)] == []


@pytest.mark.parametrize("name", ["base.txt", "dev.txt"])
def test_no_index_address_and_no_path(name: str) -> None:
    without_hashes = _HASH.sub("", (_ROOT / "requirements" / name).read_text(encoding="utf-8"))
    assert [found.group() for found in _PLACE.finditer(without_hashes)] == []


@pytest.mark.parametrize(
    "address", ["--index-url https://host/simple", "x @ file:///tmp/x.whl", "-f /srv/wheels", "/srv/x"]
)
def test_the_search_for_places_finds_them(address: str) -> None:
    assert _PLACE.search(address)


def test_what_is_tested_is_what_is_run() -> None:
    base, dev = _pins("base.txt"), _pins("dev.txt")
    assert {name: pin for name, pin in base.items() if dev[name].specifier != pin.specifier} == {}


@pytest.mark.parametrize(("folder", "stated"), [("src", _RUNTIME), ("tests", _RUNTIME + _TOOLS)])
def test_what_is_imported_is_a_direct_dependency(folder: str, stated: list[str]) -> None:
    """Not a package that is there because another one wants it."""
    direct = {canonicalize_name(Requirement(line).name) for line in stated}
    distributions = packages_distributions()
    sources = [ast.parse(file.read_bytes(), str(file)) for file in (_ROOT / folder).rglob("*.py")]
    imported = {name for source in sources for name in _imported(source)} - sys.stdlib_module_names - _OURS
    providers = {name: set(map(canonicalize_name, distributions.get(name, ["none"]))) for name in imported}
    assert {name: found for name, found in providers.items() if not found & direct} == {}


def _imported(source: ast.Module) -> set[str]:
    """The top-level names of the packages that the module imports, anywhere in it."""
    nodes = list(ast.walk(source))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_direct_dependencies_have_ranges() -> None:
    without = [stated for stated in _RUNTIME + _TOOLS if ">=" not in str(Requirement(stated).specifier)]
    assert without == []


@pytest.mark.parametrize(("file", "stated"), [("base.txt", _RUNTIME), ("dev.txt", _RUNTIME + _TOOLS)])
def test_direct_dependencies_are_pinned_within_their_ranges(file: str, stated: list[str]) -> None:
    pins = _pins(file)
    for requirement in map(Requirement, stated):
        version = str(pins[canonicalize_name(requirement.name)].specifier).removeprefix("==")
        assert requirement.specifier.contains(version), requirement


def test_the_changelog_speaks_of_this_version() -> None:
    headings = re.findall(r"^## (\S+?),? ", (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert _PROJECT["project"]["version"] in headings


def test_the_bill_of_materials_has_every_pin(tmp_path: Path) -> None:
    bill = tmp_path / "sbom.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-file", str(bill)]
    made = subprocess.run([*command, str(_ROOT / "requirements/base.txt")], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    components = json.loads(bill.read_text(encoding="utf-8"))["components"]
    listed = {canonicalize_name(part["name"]): part.get("version") for part in components}
    assert listed == {name: str(pin.specifier).removeprefix("==") for name, pin in _pins("base.txt").items()}
