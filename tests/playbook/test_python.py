"""Playbooks written in Python, in a house's folder and in other people's programs."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict

from nightdesk.errors import Invalid
from nightdesk.playbook import Limits, Registry, When, load_registry, playbook
from tests.support.playbooks import loaded, refused, write_python, write_yaml

MINE = """\
from pydantic import BaseModel

from nightdesk.playbook import playbook


class Topic(BaseModel):
    slug: str
    words: int = 800


class Draft(BaseModel):
    text: str


@playbook("blog-draft", input=Topic, output=Draft, key="{slug}", when="now", priority="P1", risk="internal")
async def blog_draft(topic: Topic, desk) -> Draft:
    return Draft(text=topic.slug * 2)


@playbook("tweet", input={"text": "string"}, limits={"time": "5m", "retries": 1}, when={"debounce": "90s"})
async def tweet(order, desk):
    return None
"""


def test_several_playbooks_may_live_in_one_file(tmp_path: Path) -> None:
    file = write_python(tmp_path, MINE)
    registry = load_registry(tmp_path)
    draft, tweet = registry.get("blog-draft"), registry.get("tweet")
    assert (draft.key, draft.when, draft.priority, draft.risk) == ("{slug}", When(kind="now"), 1, "internal")
    assert (tweet.limits, tweet.when) == (Limits(300, 0, 1), When(kind="debounce", seconds=90))
    assert (draft.source, tweet.source) == (file, file)
    assert draft.definition["input"]["required"] == ["slug"]


def test_the_function_gets_the_model_and_its_result_is_checked(tmp_path: Path) -> None:
    write_python(tmp_path, MINE)
    book = loaded(tmp_path, "blog-draft")
    values = book.check_input({"slug": "ab"})
    assert values == {"slug": "ab", "words": 800}
    assert book.run is not None
    drafted = asyncio.run(cast(Any, book.run(book.load_input(values), None)))
    assert book.check_output(drafted) == {"text": "abab"}


def test_loading_leaves_no_trace_in_the_folder_and_no_public_module(tmp_path: Path) -> None:
    write_python(tmp_path, MINE)
    load_registry(tmp_path)
    assert [file.name for file in (tmp_path / "playbooks").iterdir()] == ["mine.py"]
    assert "mine" not in sys.modules


def test_files_that_begin_with_an_underscore_are_left_alone(tmp_path: Path) -> None:
    write_python(tmp_path, "raise SystemExit", name="_scratch.py")
    assert load_registry(tmp_path).names() == load_registry(tmp_path / "elsewhere").names()


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("\n\nimport nothing_of_this_name", "line 3: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("x = 1\nx = (", "line 2: SyntaxError: '(' was never closed"),
        ("def f():\n    1 / 0\n\nf()", "line 2: ZeroDivisionError: division by zero"),
        ("\nimport sys\nsys.exit(3)", "line 3: SystemExit: 3"),
        ("x = '\0'", "line 1: SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_what_goes_wrong_on_import_is_told_with_file_and_line(tmp_path: Path, code: str, fault: str) -> None:
    write_python(tmp_path, code)
    [found] = refused(tmp_path)
    assert found.startswith("playbooks/mine.py line ")
    assert found.removeprefix("playbooks/mine.py ").partition(": ")[2] == fault.partition(": ")[2]


@pytest.mark.parametrize(
    ("head", "function", "fault"),
    [
        ('"x", instrctions="a"', "async def f(a, b): ...", 'instrctions` is not a known key; did you mean "instruct'),
        ('"X"', "async def f(a, b): ...", "`name` must be small letters"),
        ('"x", key="{a}"', "async def f(a, b): ...", "`key` names {a}, but `a` is no field of the input"),
        ('"x", gates={1, 2}', "async def f(a, b): ...", "`gates` is not JSON"),
        ('"x"', "def f(a, b): ...", "@playbook must stand over a function defined with `async def`"),
        ('"x"', "class f: ...", "@playbook must stand over a function defined with `async def`"),
        ('"x"', "async def f(a): ...", "f must take two arguments, the input and the desk"),
    ],
)
def test_a_wrong_definition_is_refused_at_its_line(tmp_path: Path, head: str, function: str, fault: str) -> None:
    write_python(tmp_path, f"from nightdesk.playbook import playbook\n\n\n@playbook({head})\n{function}\n")
    found = refused(tmp_path)[0]
    assert found.startswith("playbooks/mine.py line 4: " if "def" in function else "code line 1: ")
    assert fault in found


class Topic(BaseModel):
    slug: str


@playbook("embedded", input=Topic, key="{slug}", risk="internal")
async def embedded(topic: Topic, desk: object) -> str:
    return topic.slug


def test_a_playbook_of_any_module_can_be_added_to_a_registry() -> None:
    registry = Registry([embedded])
    assert registry.get("embedded") is embedded
    assert embedded.source == Path(__file__)
    assert embedded.key_for(embedded.check_input({"slug": "a"})) == "a"


def test_a_playbook_that_a_file_only_imports_is_not_taken_for_its_own(tmp_path: Path) -> None:
    write_python(tmp_path, f"from {__name__} import embedded\n")
    assert "embedded" not in load_registry(tmp_path)


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    weight: float


def test_a_model_of_one_s_own_has_its_own_rules_but_stays_storable() -> None:
    @playbook("loose", input=Loose)
    async def loose(order: Loose, desk: object) -> None: ...

    assert loose.check_input({"weight": "2.5", "more": 1}) == {"weight": 2.5, "more": 1}
    with pytest.raises(Invalid) as refusal:
        loose.check_input({"weight": 1e300, "more": "\0"})
    assert dict(refusal.value.faults) == {
        "weight": "must be a number between -1e15 and 1e15",
        "more": "must not contain the character NUL",
    }


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    thing: Registry


def test_a_model_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(Invalid, match="`input` has a field that JSON cannot carry"):

        @playbook("odd", input=Odd)
        async def odd(order: Odd, desk: object) -> None: ...


def test_code_beside_the_yaml_runs_only_when_it_is_called(tmp_path: Path) -> None:
    run = "import nothing_of_this_name\n\nasync def work(order, desk):\n    return order.a\n"
    write_yaml(tmp_path, "name: x\nrun: run.py:work\ninput: {a: int}", run=run)
    book = loaded(tmp_path)
    assert book.run is not None
    with pytest.raises(Invalid, match=r"playbooks/x/run.py line 1: ModuleNotFoundError"):
        book.run(book.load_input({"a": 1}), None)


def test_the_code_that_runs_is_the_code_of_the_version(tmp_path: Path) -> None:
    file = write_yaml(tmp_path, "name: x\nrun: run.py:work", run="async def work(order, desk):\n    return 1\n")
    book = loaded(tmp_path)
    (file.parent / "run.py").write_text("async def work(order, desk):\n    return 2\n", encoding="utf-8")
    assert book.run is not None
    assert asyncio.run(cast(Any, book.run(book.load_input({}), None))) == 1
