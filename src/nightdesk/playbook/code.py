"""Code that lies in a house's folders: checked by its text at once, run as a module only when it is needed."""

import ast
import importlib.abc
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from nightdesk.canonical import digest
from nightdesk.errors import Invalid
from nightdesk.playbook.faults import Fault, Path as FaultPath, hint


def shown(file: Path) -> str:
    """The file as people know it: from the folder `playbooks` on."""
    for folder in file.parents:
        if folder.name == "playbooks":
            return file.relative_to(folder.parent).as_posix()
    return file.name


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _unreadable(file, "is not UTF-8 text") from None
    except OSError as error:
        raise _unreadable(file, f"cannot be read: {error.strerror}") from None


def _unreadable(file: Path, problem: str) -> Invalid:
    return Invalid("The playbook is not valid", [(shown(file), f"the file {problem}")], "Correct the file.")


@dataclass(frozen=True)
class FileCode:
    """A function that a playbook names. What runs is the text as it was read, which the version was made from."""

    file: Path
    function: str
    text: str

    def __call__(self, first: Any, second: Any) -> Any:
        return self.loaded(first, second)

    @cached_property
    def loaded(self) -> Callable[[Any, Any], Any]:
        function: Callable[[Any, Any], Any] = getattr(load_module(self.file, self.text), self.function)
        return function


def code_beside(folder: Path, stated: object, faults: list[Fault]) -> FileCode | None:
    """The code that `run: file.py:function` names, if it is there and can be called."""
    return _function_beside(folder, stated, faults, ("run",), "async def {name}(input, desk)")


def checks_beside(folder: Path, gates: object, faults: list[Fault]) -> dict[int, FileCode]:
    """The functions that gates name as `check: file.py:function`, by the place of the gate."""
    found: dict[int, FileCode] = {}
    for number, gate in enumerate(gates if isinstance(gates, list) else ()):
        if isinstance(gate, dict) and list(gate) == ["check"]:
            at = ("gates", number, "check")
            code = _function_beside(folder, gate["check"], faults, at, "def {name}(draft, input)")
            if code is not None:
                found[number] = code
    return found


def _function_beside(folder: Path, stated: object, faults: list[Fault], at: FaultPath, form: str) -> FileCode | None:
    file_name, _, function = stated.partition(":") if isinstance(stated, str) else ("", "", "")
    file = folder / file_name
    if not function or Path(file_name).name != file_name:
        return None  # the statement's own check names this fault
    if file.resolve().parent != folder.resolve() or not file.is_file():
        faults.append((at, f"names {file_name}, and there is no such file in the playbook's folder"))
        return None
    code = FileCode(file, function, read_text(file))
    problem = _problem_with(code, form)
    if problem:
        faults.append((at, problem))
    return code


def _problem_with(code: FileCode, form: str) -> str:
    try:
        tree = ast.parse(code.text, code.file.name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"names {code.file.name}, which is not Python: {error}"
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if code.function not in functions:
        known = hint(code.function, functions)
        return f"names the function `{code.function}`, which {code.file.name} does not define{known}"
    function = functions[code.function]
    arguments = function.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    is_plain = isinstance(function, ast.FunctionDef) and form.startswith("async")
    if is_plain or needed != 2 or any(default is None for default in arguments.kw_defaults):
        return f"names `{code.function}`, which must be defined as `{form.format(name=code.function)}`"
    return ""


def load_module(file: Path, text: str) -> ModuleType:
    """Run the text as a module under a private name. What goes wrong in it is told with file and line."""
    name = f"_nightdesk_playbook_{digest(str(file), text)[:16]}"
    loader = _KeptText(file, text)
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(file)))
    module.__file__ = str(file)
    sys.modules[name] = module  # pydantic and dataclasses look a class's module up there
    try:
        loader.exec_module(module)
    except Invalid:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        place = f"{shown(file)} line {_line_of(error, file)}"
        raise Invalid("The playbook's code cannot be loaded", [(place, _last_line(error))], "Correct it.") from error
    return module


class _KeptText(importlib.abc.InspectLoader):
    """Loads a module from text already read, leaving no __pycache__ in the house."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self._text, str(self._file))


def _line_of(error: BaseException, file: Path) -> int:
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return (lines[-1] if lines else None) or 1


def _last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
