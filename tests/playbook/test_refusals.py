"""A wrong definition is refused with file, line and the nearest right word, all faults at once."""

from pathlib import Path

import pytest

from tests.support.playbooks import RUN, loaded, refused, write_yaml

X = "playbooks/x/playbook.yaml"
_WHEN = (
    "`when` must be now, night, debounce, {cron: ...}, {after: playbook}, {debounce: 90s}, {depth: 20} or {event: name}"
)


def test_a_misspelt_key_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\ntitle: X\n\ninstrctions: |\n  Rewrite\n")
    assert refused(tmp_path) == [f'{X} line 4: `instrctions` is not a known key; did you mean "instructions"?']


def test_all_faults_of_all_files_are_named_at_once(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\nrisk: none\nlimits:\n  time: 5m\n  retris: 3\ninput:\n  a: itn\n")
    write_yaml(tmp_path, "title: Y\n", folder="y")
    assert refused(tmp_path) == [
        f"{X} line 2: `risk` must be 'internal', 'reversible', 'customer' or 'irreversible'",
        f'{X} line 5: `limits.retris` is not a known key; did you mean "retries"?',
        f'{X} line 7: `input.a` has the unknown type `itn`; did you mean "int"?',
        "playbooks/y/playbook.yaml line 1: `name` is missing",
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("title: 5", "`title` must be a valid string"),
        ("priority: P4", "`priority` must be P0, P1, P2 or P3"),
        ("priority: true", "`priority` must be P0, P1, P2 or P3"),
        ("priority: [P1]", "`priority` must be P0, P1, P2 or P3"),
        ("sla: soon", "`sla` must be a duration such as 90s, 15m, 2h or 3d, or a number of seconds"),
        ("sla: 5w", "`sla` must be a duration such as 90s, 15m, 2h or 3d, or a number of seconds"),
        ("ttl: 0", "`ttl` must be greater than 0"),
        ("ttl: 9999999d", "`ttl` must be less than or equal to"),
        ("ttl: true", "`ttl` must be a duration"),
        ("budget: {task: -1}", "`budget.task` must be greater than or equal to 0"),
        ("budget: {dya: 1}", '`budget.dya` is not a known key; did you mean "day"?'),
        ("limits: {concurrency: 2.5}", "`limits.concurrency` must be a valid integer"),
        ("limits: 5", "`limits` must be a mapping of names to values"),
        ("lane: slow", "`lane` must be 'auto', 'batch', 'flex' or 'live'"),
        ("on_code_change: ask", "`on_code_change` must be 'keep' or 'person'"),
        ("model: {cheaper: a}", "`model.use` is missing"),
        ("gates: [{a: {}, b: {}}]", "`gates[0]` must be a name, or one name with its settings"),
        ("release: {path: a}", "`release.to` is missing"),
        ("review: {minutes: -1}", "`review.minutes` must be greater than or equal to 0"),
        ("then: [Not A Name]", "`then[0]` must be small letters, digits and hyphens"),
        ("golden: ../golden.jsonl", "`golden` must be a file in the playbook's own folder"),
        ("input: [string]", "`input` must be a mapping of field names to types"),
        ("output: string", "`output` must be a mapping of field names to types"),
        ("when: tomorrow", _WHEN),
        ("when: {at: 5}", _WHEN),
        ('when: {cron: "0 25 * * *"}', "`when.cron` must be a cron line that comes up"),
        ('when: {cron: "0 0 30 2 *"}', "`when.cron` must be a cron line that comes up"),
        ('when: {cron: "0 4 * * *", zone: Mars/Olympus}', "`when.zone` must be a time zone such as Europe/Berlin"),
        ('when: {cron: "0 4 * * *", zone: ../../etc/passwd}', "`when.zone` must be a time zone"),
        ('when: {cron: "0 4 * * *", zon: UTC}', '`when.zon` is not a known key; did you mean "zone"?'),
        ('when: {cron: "0 4 * * *", input: {a: 1}}', "`when.input.a` is not a known field"),
        ("when: {debounce: 0}", "`when.debounce` must be greater than 0"),
        ("when: {after: nobody}", "`when.after` names the unknown playbook nobody"),
        ("when: {after: x}", "`when.after` goes round in a circle"),
        ("key: week", "`key` must name a field of the input"),
        ("key: 5", "`key` must be a valid string"),
        ("budget: {task: 1e999}", "`budget.task` must be a number between -1e15 and 1e15"),
        ("instructions: !!python/object:os.system x", "`instructions` has a tag (!) that is not known here"),
        ("instructions: !secret x", "`instructions` has a tag (!) that is not known here"),
        ("instructions: !!int x", "`instructions` has a tag (!) that is not known here"),
        ("5: x", "`5` must be a word; put it in quotes"),
        ("[a]: x", "`?` must be a word; put it in quotes"),
        ("review: {true: x}", "`review.true` must be a word; put it in quotes"),
        ("name: y", "`name` is there twice, in line 1 and in line 2"),
        ("title: *name", "the YAML found undefined alias"),
        ("title: [", "the YAML "),
        ("--- \nname: y", "the YAML "),
    ],
)
def test_a_fault_in_one_key(tmp_path: Path, line: str, fault: str) -> None:
    write_yaml(tmp_path, f"name: x\n{line}\n")
    found = refused(tmp_path)[0]
    place, _, text = found.partition(": ")
    assert place.startswith(X)
    assert text.startswith(fault)


@pytest.mark.parametrize("name", ["X", "-x", "9x", "x_y", "x y", "x" * 65, '""', '"x\\n"', "ü", "5", "null"])
def test_a_name_must_be_a_plain_word(tmp_path: Path, name: str) -> None:
    write_yaml(tmp_path, f"name: {name}")
    [fault] = refused(tmp_path)
    assert fault.startswith(f"{X} line 1: `name` must be ")


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{asn}", '`key` names {asn}, but `asn` is no field of the input; did you mean "asin"?'),
        ("{shop.nam}", '`key` names {shop.nam}, but `nam` is no field of the input; did you mean "name"?'),
        ("{asin.length}", "`key` names {asin.length}, but `length` is no field of the input"),
        ("{asin.__class__}", "`key` names {asin.__class__}, but `__class__` is no field of the input"),
        ("{asin!r}", "`key` may use braces only around a field name, as in {asin} or {shop.name}"),
        ("{asin:>9}", "`key` may use braces only around a field name, as in {asin} or {shop.name}"),
        ("{asin}}", "`key` may use braces only around a field name, as in {asin} or {shop.name}"),
        ("{}", "`key` may use braces only around a field name, as in {asin} or {shop.name}"),
        ("{bullets[0]}", "`key` may use braces only around a field name, as in {asin} or {shop.name}"),
    ],
)
def test_a_key_template_uses_fields_of_the_input_only(tmp_path: Path, template: str, fault: str) -> None:
    write_yaml(
        tmp_path, f'name: x\nkey: "{template}"\ninput: {{asin: string, bullets: [string], shop: {{name: string}}}}'
    )
    assert refused(tmp_path)[0] == f"{X} line 2: {fault}"


@pytest.mark.parametrize(
    ("run", "code", "fault"),
    [
        ("run.py", RUN, "must be file and function, as in run.py:work, and the file must lie beside the YAML"),
        ("../run.py:work", RUN, "must be file and function, as in run.py:work, and the file must lie beside the YAML"),
        ("/run.py:work", RUN, "must be file and function, as in run.py:work, and the file must lie beside the YAML"),
        ("sub/run.py:work", RUN, "must be file and function, as in run.py:work, and the file must lie beside the YAML"),
        ("other.py:work", RUN, "names other.py, and there is no such file in the playbook's folder"),
        (
            "run.py:wrok",
            RUN,
            'names the function `wrok`, which run.py does not define; did you mean "work"?',
        ),
        ("run.py:work", "", "names the function `work`, which run.py does not define"),
        (
            "run.py:work",
            "def work(order, desk): ...",
            "names `work`, which must be defined as `async def work(input, desk)`",
        ),
        (
            "run.py:work",
            "async def work(order): ...",
            "names `work`, which must be defined as `async def work(input, desk)`",
        ),
        (
            "run.py:work",
            "async def work(order, desk, *, more): ...",
            "names `work`, which must be defined as `async def work(input, desk)`",
        ),
        ("run.py:work", "\nasync def (", "names run.py, which is not Python: invalid syntax (run.py, line 2)"),
    ],
)
def test_the_code_must_be_there(tmp_path: Path, run: str, code: str, fault: str) -> None:
    write_yaml(tmp_path, f"name: x\nrun: {run}", run=code)
    assert refused(tmp_path) == [f"{X} line 2: `run` {fault}"]


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(RUN, encoding="utf-8")
    file = write_yaml(tmp_path, "name: x\nrun: run.py:work")
    (file.parent / "run.py").symlink_to(tmp_path / "outside.py")
    [fault] = refused(tmp_path)
    assert fault == f"{X} line 2: `run` names run.py, and there is no such file in the playbook's folder"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "line 1: the file must be a mapping that begins with `name: ...`"),
        (b"- name: x", "line 1: the file must be a mapping that begins with `name: ...`"),
        (b"name: \xff", ": the file is not UTF-8 text"),
        (b"name: \x07", "line 1: the YAML has a character that is not text"),
        (b"name: x\ninput: {a: " + b"[" * 5000 + b"]" * 5000 + b"}", "line 1: the YAML is nested too deeply"),
    ],
)
def test_a_file_that_is_no_playbook_at_all(tmp_path: Path, content: bytes, fault: str) -> None:
    write_yaml(tmp_path, "").write_bytes(content)
    [found] = refused(tmp_path)
    assert found.replace(X, "").strip() == fault


def test_aliases_are_refused_before_they_can_grow(tmp_path: Path) -> None:
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
    write_yaml(tmp_path, f"name: x\nl0: &l0 [lol]\n{layers}\nloop: &loop [*loop]\n")
    found = refused(tmp_path)
    assert "`l1[0]` is an alias (*); write the value out" in {fault.partition(": ")[2] for fault in found}
    assert "`loop[0]` is an alias (*); write the value out" in {fault.partition(": ")[2] for fault in found}


def test_words_that_other_yaml_readers_turn_into_something_else_stay_words(tmp_path: Path) -> None:
    write_yaml(tmp_path, "name: x\ninput: {answer: {one_of: [yes, no, on, off, 2024-01-01, 12:30]}}\n")
    book = loaded(tmp_path)
    for word in ("yes", "no", "on", "off", "2024-01-01", "12:30"):
        assert book.check_input({"answer": word}) == {"answer": word}
