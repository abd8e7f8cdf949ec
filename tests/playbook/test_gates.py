"""Gates as they are stated: every setting typed, every unknown word answered with the nearest, functions by name."""

from pathlib import Path
from typing import Any

import pytest

from nightdesk.playbook import Bar, Gate
from nightdesk.playbook.gates import GATES, Length, Numbers, Schema
from tests.support.playbooks import RUN, loaded, refused, write_python, write_yaml

HEAD = """\
name: x
input: {brand: string, facts: [{fact: string, source: string}], extra: any}
output: {title: string, claims: [{claim: string, source: string}], rest: any}
"""


def gates_of(home: Path, stated: str, **more: Any) -> tuple[Gate, ...]:
    write_yaml(home, f"{HEAD}gates:\n{stated}", **more)
    return loaded(home).gates


def test_gates_are_read_in_their_order_with_their_settings(tmp_path: Path) -> None:
    first, second, third, fourth = gates_of(
        tmp_path,
        "  - length: {field: title, max: 200}\n"
        "  - no_prompt_leak\n"
        "  - numbers: {from: [brand, facts.fact], lost: 0}\n"
        "  - schema: {field: title, type: {type: string, max: 60}}\n",
    )
    assert (first.name, first.settings) == ("length", Length(field="title", max=200))
    assert (second.name, second.run) == ("no_prompt_leak", None)
    assert isinstance(third.settings, Numbers)
    assert third.settings.from_ == ["brand", "facts.fact"]
    assert isinstance(fourth.settings, Schema)
    assert fourth.settings.type.model_json_schema()["properties"]["value"]["maxLength"] == 60


@pytest.mark.parametrize("name", GATES)
def test_every_gate_has_an_example_that_loads(tmp_path: Path, name: str) -> None:
    needed = {
        "length": "{max: 5}",
        "sources": "{claims: claims, among: facts.source}",
        "required": "{from: brand}",
        "forbidden": "{phrases: [x]}",
        "schema": "{type: any}",
        "links": "{hosts: [example.com, '*.example.org']}",
        "judge": "{criteria: [it is short], model: 'openai:gpt-5-mini'}",
    }
    [gate] = gates_of(tmp_path, f"  - {name}: {needed.get(name, '{}')}\n")
    assert gate.name == name


@pytest.mark.parametrize(
    ("stated", "fault"),
    [
        ("lenght: {max: 5}", '`gates[0]` names the unknown gate `lenght`; did you mean "length"?'),
        ("promptleak", '`gates[0]` names the unknown gate `promptleak`; did you mean "no_prompt_leak"?'),
        ("length: {mx: 5}", '`gates[0].length.mx` is not a known setting; did you mean "max"?'),
        ("length: {max: five}", "`gates[0].length.max` must be a valid integer"),
        ("length: {max: -1}", "`gates[0].length.max` must be greater than or equal to 0"),
        ("length: {}", "`gates[0].length` must state `min`, `max` or both"),
        ("length: {min: 5, max: 4}", "`gates[0].length` has a `min` above its `max`"),
        ("length: {unit: items, max: 4}", "`gates[0].length` must state the `field` whose items are counted"),
        ("length: {unit: letters, max: 4}", "`gates[0].length.unit` must be 'characters', 'words' or 'items'"),
        ("length: 5", "`gates[0].length` must be a mapping of names to values"),
        ("length: {field: titel, max: 5}",
         '`gates[0].length` names titel, but `titel` is no field of the output; did you mean "title"?'),
        ("length: {field: claims.clam, max: 5}",
         "`gates[0].length` names claims.clam, but `clam` is no field of the output"),
        ("length: {field: 'title[0]', max: 5}",
         "`gates[0].length.field` must be a field, as in title or claims.source"),
        ("length: {field: '', max: 5}", "`gates[0].length.field` must be a field, as in title or claims.source"),
        ("readability: {language: xx}", "`gates[0].readability.language` must be 'de', 'en', 'es', 'fr', 'it' or 'nl'"),
        ("sources: {}", "`gates[0].sources.claims` is missing"),
        ("sources: {claims: claims, source: link}",
         "`gates[0].sources` names claims.link, but `link` is no field of the output"),
        ("sources: {claims: claims, among: facts.surce}",
         '`gates[0].sources` names facts.surce, but `surce` is no field of the input; did you mean "source"?'),
        ("sources: {claims: claims, field: title}", "`gates[0].sources.field` "),
        ("required: {}", "`gates[0].required` must state `phrases`, or with `from` the field of the input"),
        ("required: {from: brnd}",
         '`gates[0].required` names brnd, but `brnd` is no field of the input; did you mean "brand"?'),
        ("forbidden: {phrases: one}", "`gates[0].forbidden.phrases` must be a valid list"),
        ("forbidden: {phrases: ['  ']}", "`gates[0].forbidden.phrases[0]` "),
        ("schema: {}", "`gates[0].schema.type` is missing"),
        ("schema: {type: strin}", '`gates[0].schema.type.value` has the unknown type `strin`; did you mean "string"?'),
        ("duplicate: {max: 0.2}", "`gates[0].duplicate.max` must be greater than or equal to 0.5"),
        ("links: {}", "`gates[0].links.hosts` is missing"),
        ("links: {hosts: ['https://example.com/']}", "`gates[0].links.hosts[0]` must be a host in small letters"),
        ("links: {hosts: [localhost]}", "`gates[0].links.hosts[0]` must be a host in small letters"),
        ("links: {hosts: [example.com], others: maybe}", "`gates[0].links.others` must be 'refuse' or 'skip'"),
        ("judge: {}", "`gates[0].judge.criteria` is missing"),
        ("judge: {criteria: []}", "`gates[0].judge.criteria` must have at least 1 item"),
        ("judge: {criteria: [a], min: 7}", "`gates[0].judge.min` must be less than or equal to 1"),
        ("judge: {criteria: [a]}", "`gates[0].judge` needs a model: state one in it, or the playbook's own"),
        ("check: 5", "`gates[0].check` must be file and function, as in gates.py:no_prices"),
        ("check: gates.py", "`gates[0].check` must be file and function, as in gates.py:no_prices"),
        ("check: other.py:f", "`gates[0].check` names other.py, and there is no such file in the playbook's folder"),
        ("check: run.py:wrk",
         '`gates[0].check` names the function `wrk`, which run.py does not define; did you mean "work"?'),
        ("check: run.py:one", "`gates[0].check` names `one`, which must be defined as `def one(draft, input)`"),
        ("check: ../run.py:work", "`gates[0].check` must be file and function"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_gate_is_said(tmp_path: Path, stated: str, fault: str) -> None:
    write_yaml(tmp_path, f"{HEAD}gates:\n  - {stated}\n", run=f"{RUN}\ndef one(draft):\n    ...\n")
    found = refused(tmp_path)
    assert found[0].startswith(f"playbooks/x/playbook.yaml line 5: {fault}"), found


def test_all_faults_of_all_gates_are_named_at_once(tmp_path: Path) -> None:
    write_yaml(tmp_path, f"{HEAD}gates:\n  - lenght\n  - length: {{}}\n  - numbers: {{new: many}}\n")
    assert [fault.partition(":")[0].rpartition(" ")[2] for fault in refused(tmp_path)] == ["5", "6", "7"]


def test_inside_of_anything_and_of_no_stated_output_every_field_may_be(tmp_path: Path) -> None:
    assert gates_of(tmp_path, "  - length: {field: rest.of.it, max: 5}\n  - required: {from: extra.words}\n")
    write_yaml(tmp_path, "name: x\ngates: [{length: {field: whatever, max: 5}}]")
    assert loaded(tmp_path).gates


def test_a_function_beside_the_yaml_is_a_gate_and_its_text_is_in_the_version(tmp_path: Path) -> None:
    stated = '  - check: run.py:fine\n  - {check: "run.py:work"}\n'
    fine, work = gates_of(tmp_path, stated, run=f"{RUN}\ndef fine(draft, order):\n    return draft == order\n")
    version = loaded(tmp_path).version
    assert (fine.name, work.name) == ("fine", "work")
    assert fine.run is not None
    assert (fine.run(1, 1), fine.run(1, 2)) == (True, False)
    gates_of(tmp_path, stated, run=f"{RUN}\ndef fine(draft, order):\n    return draft != order\n")
    assert loaded(tmp_path).version != version


def test_functions_are_gates_in_python_too(tmp_path: Path) -> None:
    write_python(
        tmp_path,
        """\
        from nightdesk import playbook

        def short(draft, order):
            return len(draft) < 5

        @playbook("x", gates=["no_prompt_leak", short, {"length": {"max": 9}}])
        async def x(order, desk): ...
        """,
    )
    book = loaded(tmp_path)
    assert [gate.name for gate in book.gates] == ["no_prompt_leak", "short", "length"]
    assert book.gates[1].run is not None
    assert book.gates[1].run("abc", None) is True
    assert book.definition["gates"] == ["no_prompt_leak", {"check": "short"}, {"length": {"max": 9}}]


@pytest.mark.parametrize(
    ("gates", "fault"),
    [
        ("[lambda draft: True]", "is a function that does not take two arguments, the draft and the input"),
        ('[{"check": "gates.py:x"}]',
         "must be file and function, as in gates.py:no_prices; in Python give the function itself"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_gate_in_python_is_said(tmp_path: Path, gates: str, fault: str) -> None:
    code = f'from nightdesk import playbook\n\n@playbook("x", gates={gates})\nasync def x(order, desk): ...\n'
    write_python(tmp_path, code)
    assert fault in refused(tmp_path)[0]


def test_the_bar_and_the_redrafts(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x")
    assert (loaded(tmp_path).bar, loaded(tmp_path).limits.redrafts) == (Bar(0.75, 50), 0)
    write_yaml(tmp_path, "name: x\nbar: {rate: 0.9, cases: 12}\nlimits: {redrafts: 2}")
    assert (loaded(tmp_path).bar, loaded(tmp_path).limits.redrafts) == (Bar(0.9, 12), 2)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("bar: {rate: 75}", "`bar.rate` must be less than or equal to 1"),
        ("bar: {cases: 0}", "`bar.cases` must be greater than or equal to 1"),
        ("bar: 0.75", "`bar` must be a mapping of names to values"),
        ("limits: {redrafts: 9}", "`limits.redrafts` must be less than or equal to 3"),
        ("run: run.py:work\nlimits: {redrafts: 1}", "`limits.redrafts` is for playbooks without code"),
    ],
)
def test_what_is_wrong_with_them_is_said(tmp_path: Path, line: str, fault: str) -> None:
    write_yaml(tmp_path, f"name: x\n{line}", run=RUN)
    assert fault in refused(tmp_path)[0]
