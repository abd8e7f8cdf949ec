"""Writing playbooks into a house, and reading back how they were refused."""

from pathlib import Path
from textwrap import dedent

import pytest

from nightdesk.errors import Invalid
from nightdesk.playbook import Playbook, load_registry

RUN = "async def work(order, desk):\n    return None\n"


def write_yaml(home: Path, text: str, folder: str = "x", run: str | None = None) -> Path:
    file = home / "playbooks" / folder / "playbook.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text), encoding="utf-8")
    if run is not None:
        (file.parent / "run.py").write_text(dedent(run), encoding="utf-8")
    return file


def write_python(home: Path, text: str, name: str = "mine.py") -> Path:
    file = home / "playbooks" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text), encoding="utf-8")
    return file


def loaded(home: Path, name: str = "x") -> Playbook:
    return load_registry(home).get(name)


def refused(home: Path) -> list[str]:
    """The faults that the house's playbooks are refused for, each as `place: fault`."""
    with pytest.raises(Invalid) as refusal:
        load_registry(home)
    return [f"{place}: {fault}" for place, fault in refusal.value.faults]
