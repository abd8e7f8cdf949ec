"""All playbooks of a house: those that ship with Nightdesk, and those in its folder `playbooks`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from nightdesk.errors import Invalid, NotFound
from nightdesk.playbook.building import build, refusal
from nightdesk.playbook.code import checks_beside, code_beside, read_text, shown
from nightdesk.playbook.decorator import load_python
from nightdesk.playbook.definition import Playbook
from nightdesk.playbook.faults import Path as KeyPath, hint
from nightdesk.playbook.reading import read_yaml

SHIPPED = Path(__file__).parent.parent / "playbooks"


class Registry:
    def __init__(self, playbooks: Iterable[Playbook] = ()) -> None:
        self._by_name: dict[str, Playbook] = {}
        for playbook in playbooks:
            self.add(playbook)

    def add(self, playbook: Playbook) -> None:
        other = self._by_name.setdefault(playbook.name, playbook)
        if other is not playbook:
            taken = f"the name {playbook.name} is taken by {_origin(other)}"
            raise Invalid("The playbook is not valid", [(_origin(playbook), taken)], "Give one of them another name.")

    def get(self, name: str) -> Playbook:
        found = self._by_name.get(name)
        if found is None:
            known = hint(name, self.names()).rstrip("?")
            raise NotFound(f'There is no playbook "{name[:64]}"{known}.')
        return found

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def __iter__(self) -> Iterator[Playbook]:
        return iter([self._by_name[name] for name in self.names()])

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name


def load_registry(home: Path) -> Registry:
    """Every playbook there is, or one refusal that names the faults of all files. One of the house's own takes the
    place of one that ships under the same name."""
    registry = Registry()
    found = [
        (shown(file), "the file must be called playbook.yaml") for file in (home / "playbooks").glob("*/playbook.yml")
    ]
    for file in _files(home / "playbooks") + _files(SHIPPED):
        try:
            for playbook in load_python(file) if file.suffix == ".py" else [load_yaml(file)]:
                if SHIPPED not in file.parents or playbook.name not in registry:
                    registry.add(playbook)
        except Invalid as error:
            found += error.faults
    if not found:
        found += _faults_of_order(registry)
    if found:
        raise Invalid("Some playbooks are not valid", found, "Correct the files at these places.")
    return registry


def load_yaml(file: Path) -> Playbook:
    reading = read_yaml(read_text(file))

    def place(path: KeyPath) -> str:
        return f"{shown(file)} line {reading.line(path)}"

    if not reading.data and reading.faults:
        raise refusal(reading.faults, place)
    code = code_beside(file.parent, reading.data.get("run"), reading.faults)
    checks = checks_beside(file.parent, reading.data.get("gates"), reading.faults)
    text = "".join(dict.fromkeys(part.text for part in [*([code] if code else []), *checks.values()]))
    return build(reading.data, place, run=code, code=text, source=file, found=reading.faults, checks=checks)


def _files(folder: Path) -> list[Path]:
    python = [file for file in folder.glob("*.py") if not file.name.startswith("_")]
    return sorted(folder.glob("*/playbook.yaml")) + sorted(python)


def _faults_of_order(registry: Registry) -> Iterator[tuple[str, str]]:
    """`when: {after: ...}` and `then` must name playbooks that exist, and following them must come to an end."""
    for playbook in registry:
        after = playbook.when.after
        yield from _faults_of_then(playbook, registry)
        if after and after not in registry:
            yield _origin(playbook), f"`when.after` names the unknown playbook {after}{hint(after, registry.names())}"
        elif after and _comes_back(playbook, registry):
            yield _origin(playbook), f"`when.after` goes round in a circle: {playbook.name} would start itself"


def _faults_of_then(playbook: Playbook, registry: Registry) -> Iterator[tuple[str, str]]:
    for name in playbook.then:
        if name not in registry:
            yield _origin(playbook), f"`then` names the unknown playbook {name}{hint(name, registry.names())}"
    if playbook.name in _what_follows(playbook, registry):
        yield _origin(playbook), f"`then` goes round in a circle: {playbook.name} would start itself for ever"


def _what_follows(playbook: Playbook, registry: Registry) -> set[str]:
    """The names of all that its results are handed on to, however far."""
    found: set[str] = set()
    ahead = list(playbook.then)
    while ahead:
        name = ahead.pop()
        if name in registry and name not in found:
            found.add(name)
            ahead += registry.get(name).then
    return found


def _comes_back(start: Playbook, registry: Registry) -> bool:
    seen = {start.name}
    after = start.when.after
    while after in registry and after not in seen:
        seen.add(after)
        after = registry.get(after).when.after
    return after == start.name


def _origin(playbook: Playbook) -> str:
    if playbook.source is None:
        return "code"
    return f"nightdesk/{shown(playbook.source)}" if SHIPPED in playbook.source.parents else shown(playbook.source)
