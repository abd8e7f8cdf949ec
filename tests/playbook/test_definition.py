"""What a definition becomes, what identifies a task, and what its code may return."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from nightdesk.errors import Invalid
from nightdesk.playbook import Limits, When
from tests.support.playbooks import loaded, write_python, write_yaml

LISTING = """\
    name: listing-rewrite
    title: Amazon listing rewrites
    when: night
    input:  {asin: string, title: string, bullets: [string], keywords: [string]}
    output: {title: string, bullets: [string], description: string}
    key: "{asin}"
    model: {use: anthropic:claude-haiku-4-5, cheaper: openai:gpt-5-nano, fallback: openai:gpt-5-mini}
    priority: P2
    budget: {task: 0.05, day: 2.00}
    risk: customer
    instructions: |
      Rewrite the listing for ...
    gates:
      - length: {field: title, max: 200}
      - no_prompt_leak: {}
    review: {minutes: 2, checklist: [keeps every claim true], reasons: [off brand, claim not supported]}
    release: {to: folder, path: "listings/{asin}.json"}
    golden: golden.jsonl
"""


def test_a_playbook_without_code_is_whole(tmp_path: Path) -> None:
    file = write_yaml(tmp_path, LISTING)
    book = loaded(tmp_path, "listing-rewrite")
    assert (book.run, book.source, book.risk, book.priority) == (None, file, "customer", 2)
    assert book.definition["gates"] == [{"length": {"field": "title", "max": 200}}, {"no_prompt_leak": {}}]
    assert book.definition["release"]["path"] == "listings/{asin}.json"


def test_what_is_not_stated_has_its_default(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: two-words")
    book = loaded(tmp_path, "two-words")
    assert (book.title, book.when, book.limits) == ("Two words", When(kind="night"), Limits(3600, 0, 3))
    assert (book.key, book.output, book.sla_seconds, book.ttl_seconds) == (None, None, None, None)
    assert (book.risk, book.on_code_change, book.priority) == ("customer", "keep", 2)
    assert book.check_input({}) == {}


def test_every_other_key_is_read(tmp_path: Path) -> None:
    write_yaml(
        tmp_path,
        """\
        name: x
        model: openai:gpt-5-mini
        priority: 0
        sla: 2h
        ttl: 3d
        limits: {time: 15m, concurrency: 4, retries: 0}
        on_code_change: person
        risk: irreversible
        lane: flex
        then: [drill]
        tools: [search, {publish: {layer: act with approval}}]
        gates: [no_prompt_leak]
        """,
    )
    book = loaded(tmp_path)
    assert (book.priority, book.sla_seconds, book.ttl_seconds) == (0, 7200, 259200)
    assert book.limits == Limits(900, 4, 0)
    assert (book.on_code_change, book.risk, book.then) == ("person", "irreversible", ("drill",))


@pytest.mark.parametrize(
    ("stated", "when"),
    [
        ("now", When(kind="now")),
        ("night", When(kind="night")),
        ("{debounce: 90s}", When(kind="debounce", seconds=90)),
        ("{debounce: 1.5}", When(kind="debounce", seconds=1.5)),
        ("debounce", When(kind="debounce", seconds=90)),
        ("{depth: 20}", When(kind="depth", depth=20, seconds=3600)),
        ("{depth: 2, longest: 5m}", When(kind="depth", depth=2, seconds=300)),
        ("{event: price-changed}", When(kind="event", event="price-changed")),
        ("{after: x}", When(kind="after", after="x")),
        (
            '{cron: "0 4 * * *", zone: Europe/Berlin, input: {day: 1}}',
            When(kind="cron", cron="0 4 * * *", zone="Europe/Berlin", input={"day": 1}),
        ),
        ('{cron: "0 0 29 2 *", input: {day: 1}}', When(kind="cron", cron="0 0 29 2 *", input={"day": 1})),
    ],
)
def test_when(tmp_path: Path, stated: str, when: When) -> None:
    write_yaml(tmp_path, "name: x", folder="x")
    write_yaml(tmp_path, f"name: y\nwhen: {stated}\ninput: {{day: int}}", folder="y")
    assert loaded(tmp_path, "y").when == when


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("{asin}", "B01"),
        ("{asin}/{shop.name}", "B01/Öst"),
        ("{pages}-{tags}-{note}-{shop.size}", '3-["a"]-null-2.5'),
        ("{outer.inner}", "null"),
    ],
)
def test_the_key_is_the_template_filled_in(tmp_path: Path, template: str, key: str) -> None:
    write_yaml(
        tmp_path,
        f"""\
        name: x
        key: "{template}"
        input:
          asin: string
          pages: int
          tags: [string]
          note: string?
          shop: {{name: string, size: number}}
          outer: {{type: {{inner: int}}, default: null}}
        """,
    )
    book = loaded(tmp_path)
    values = {"asin": "B01", "pages": 3, "tags": ["a"], "shop": {"name": "Öst", "size": 2.5}}
    assert book.key_for(book.check_input(values)) == key


def test_the_values_of_a_key_are_not_read_as_templates(tmp_path: Path) -> None:
    write_yaml(tmp_path, 'name: x\nkey: "{a}{b}"\ninput: {a: string, b: string}')
    assert loaded(tmp_path).key_for({"a": "{b}", "b": "\\1"}) == "{b}\\1"


def test_a_long_key_becomes_a_short_one_of_its_own(tmp_path: Path) -> None:
    write_yaml(tmp_path, 'name: x\nkey: "{a}"\ninput: {a: string}')
    book = loaded(tmp_path)
    keys = {book.key_for({"a": "x" * length}) for length in (255, 256, 100_000)}
    assert len(keys) == 3
    assert max(map(len, keys)) == 255


def test_without_a_template_the_key_stands_for_the_whole_input(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\ninput: {a: int, b: {type: int, default: 2}}")
    book = loaded(tmp_path)
    same = {book.key_for(book.check_input(raw)) for raw in ({"a": 1}, {"b": 2, "a": 1})}
    assert len(same) == 1
    assert book.key_for(book.check_input({"a": 2})) not in same


def test_the_input_reaches_the_code_as_its_model(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\ninput: {a: {b: date}}")
    book = loaded(tmp_path)
    order: Any = book.load_input(book.check_input({"a": {"b": "2024-01-31"}}))
    assert order.a.b.year == 2024


def test_an_old_input_that_fits_no_longer_is_refused_by_name(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\ninput: {a: int}")
    with pytest.raises(Invalid, match=r"The input of x is not valid \(a: is missing\)"):
        loaded(tmp_path).load_input({})


class Draft(BaseModel):
    text: str


@pytest.mark.parametrize("value", [{"text": "done"}, Draft(text="done")])
def test_the_output_is_kept_as_plain_json(tmp_path: Path, value: Any) -> None:
    write_yaml(tmp_path, "name: x\noutput: {text: string}")
    assert loaded(tmp_path).check_output(value) == {"text": "done"}


@pytest.mark.parametrize("value", [None, {}, {"text": 5}, {"text": "a\0"}, {"text": "a", "more": 1}, object()])
def test_a_wrong_output_is_refused(tmp_path: Path, value: Any) -> None:
    write_yaml(tmp_path, "name: x\noutput: {text: string}")
    with pytest.raises(Invalid, match="The output of x is not valid"):
        loaded(tmp_path).check_output(value)


def test_without_a_type_any_json_may_be_returned(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x")
    book = loaded(tmp_path)
    assert book.check_output(None) is None
    assert book.check_output([Draft(text="a"), 1]) == [{"text": "a"}, 1]
    with pytest.raises(Invalid, match="number between"):
        book.check_output({"a": [1e300]})


def test_the_version_follows_definition_and_code(tmp_path: Path) -> None:
    def version(definition: str, code: str) -> str:
        write_yaml(tmp_path, definition, run=code)
        return loaded(tmp_path).version

    first = version("name: x\nrun: run.py:work", "async def work(order, desk): return 1")
    assert len(first) == 12
    assert version("run:   run.py:work  # moved\nname: x", "async def work(order, desk): return 1") == first
    assert version("name: x\nrun: run.py:work", "async def work(order, desk): return 2") != first
    assert version("name: x\nrun: run.py:work\npriority: P1", "async def work(order, desk): return 1") != first


def test_the_version_of_a_python_playbook_follows_its_file(tmp_path: Path) -> None:
    def version(value: int) -> str:
        write_python(
            tmp_path,
            f"""\
            from nightdesk.playbook import playbook

            @playbook("x")
            async def work(order, desk):
                return {value}
            """,
        )
        return loaded(tmp_path).version

    assert version(1) == version(1) != version(2)
