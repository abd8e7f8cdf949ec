"""Playbooks written in Python: `@playbook(...)` over an async function."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel

from nightdesk.canonical import Json
from nightdesk.playbook.building import build
from nightdesk.playbook.code import load_module, read_text, shown
from nightdesk.playbook.definition import Lane, OnCodeChange, Playbook, Risk, Run
from nightdesk.playbook.faults import Fault, Path as KeyPath
from nightdesk.playbook.gate_reading import Check


@dataclass
class _Loading:
    """A file of the house while it runs: its text as it was read, and the playbooks it has defined so far."""

    file: Path
    text: str
    playbooks: list[Playbook] = field(default_factory=list)


_loading: ContextVar[_Loading | None] = ContextVar("nightdesk_loading", default=None)


class Stated(TypedDict, total=False):
    """The keys of a playbook's YAML, as arguments. `input` and `output` may be pydantic models."""

    title: str
    input: type[BaseModel] | Mapping[str, Json]
    output: type[BaseModel] | Mapping[str, Json] | None
    key: str
    when: str | Mapping[str, Json]
    window: Mapping[str, str]
    priority: str | int
    risk: Risk
    model: str | Mapping[str, str]
    budget: Mapping[str, float]
    instructions: str
    gates: list[Json | Check]
    review: Mapping[str, Json]
    release: Mapping[str, Json]
    golden: str
    bar: Mapping[str, float]
    lane: Lane
    cache: bool
    then: list[str]
    tools: list[Json]
    sla: str | float
    ttl: str | float
    limits: Mapping[str, Json]
    on_code_change: OnCodeChange


Decorated = Callable[[Run], Playbook]


def playbook(name: str, **stated: Unpack[Stated]) -> Decorated:
    """Make a Playbook of the async function (input, desk) below. Every key of the YAML form is an argument."""

    def make(function: Run) -> Playbook:
        file, line = _origin(function)

        def place(path: KeyPath) -> str:
            return f"{shown(file)} line {line}"

        checks, plainly = _checks_in(stated), _with_names(stated)
        found = [*_faults_of(function), *_faults_of_checks(checks)]
        files = dict.fromkeys([file, *(_origin(check)[0] for check in checks.values())])
        code = "".join(_text_of(known) for known in files)
        made = build({"name": name, **plainly}, place, run=function, code=code, source=file, found=found, checks=checks)
        loading = _loading.get()
        if loading is not None and loading.file == file:
            loading.playbooks.append(made)
        return made

    return make


def load_python(file: Path) -> list[Playbook]:
    """The playbooks that a file of the house defines, in their order there."""
    loading = _Loading(file, read_text(file))
    token = _loading.set(loading)
    try:
        load_module(file, loading.text)
    finally:
        _loading.reset(token)
    return loading.playbooks


def _checks_in(stated: Stated) -> dict[int, Check]:
    """The functions among the gates, by their place."""
    gates = stated.get("gates")
    return {number: gate for number, gate in enumerate(gates) if callable(gate)} if isinstance(gates, list) else {}


def _with_names(stated: Stated) -> dict[str, Any]:
    """What is stated, with each of these functions as YAML would name it."""
    named = {number: {"check": getattr(check, "__name__", "check")} for number, check in _checks_in(stated).items()}
    gates = stated.get("gates")
    if not named or gates is None:
        return dict(stated)
    return {**stated, "gates": [named.get(number, gate) for number, gate in enumerate(gates)]}


def _origin(function: Callable[..., Any]) -> tuple[Path, int]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (Path(code.co_filename), code.co_firstlineno) if code else (Path("code"), 1)


def _text_of(file: Path) -> str:
    """The text that the function comes from; nothing for one typed at a prompt."""
    loading = _loading.get()
    if loading is not None and loading.file == file:
        return loading.text
    return read_text(file) if file.is_file() else ""


def _faults_of(function: Run) -> list[Fault]:
    if not inspect.iscoroutinefunction(function):
        return [((), "@playbook must stand over a function defined with `async def`")]
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return [((), f"{function.__name__} must take two arguments, the input and the desk")]
    return []


def _faults_of_checks(checks: Mapping[int, Check]) -> Iterator[Fault]:
    for number, check in checks.items():
        try:
            inspect.signature(check).bind(None, None)
        except TypeError:
            yield ("gates", number), "is a function that does not take two arguments, the draft and the input"
