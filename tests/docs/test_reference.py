"""What the pages list is what there is: commands, states, problems, keys, settings, metrics, and their names."""

import ast
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from nightdesk.cli.app import app
from nightdesk.clock import SystemClock
from nightdesk.guard.breakers import State
from nightdesk.guard.tokens import SCOPES
from nightdesk.house import House
from nightdesk.intake import Submission, submit
from nightdesk.model.providers import PROVIDERS
from nightdesk.model.simulator.behaviour import KINDS, Behaviour
from nightdesk.playbook.notation import WORDS
from nightdesk.playbook.statement import Statement
from nightdesk.settings import RateSettings, Settings, load_settings
from nightdesk.store.asking import LANES
from nightdesk.store.tables import FINAL, STATES, WAITS, notices
from nightdesk.watch.metrics import Metrics
from nightdesk.web import problems
from nightdesk.web.app import create_app
from nightdesk.web.rooms import PATIENCE_SECONDS, Rooms
from nightdesk.work import Desk
from nightdesk.work.failure import FailureClass
from nightdesk.work.insight import find_task
from nightdesk.work.states import ENDS, LEADS_TO
from nightdesk.work.tasks import cancel
from tests.support.pages import ROOT, blocks_of, headings, rows, section, text_of, words

_WEB = Path(problems.__file__).parent


def _first_words(page: str, heading: str) -> list[str]:
    """What the first column of the section's table has in backquotes."""
    return [word for row in rows(section(page, heading)) for word in words(row[0])]


def test_the_table_of_states_is_the_state_machine() -> None:
    table = rows(text_of("docs/states.md").partition("## ")[0])
    assert {words(row[0])[0]: frozenset(words(row[2])) for row in table} == LEADS_TO
    assert [words(row[0])[0] for row in table] == list(STATES)


def test_the_graph_of_states_is_the_state_machine() -> None:
    [graph] = blocks_of("docs/states.md", "mermaid")
    arrows = set(re.findall(r"^    (\S+) --> (\S+)$", graph, re.MULTILINE))
    inside = {(state, to) for state, leads_to in LEADS_TO.items() for to in leads_to}
    outside = {("[*]", "queued")} | {(state, "[*]") for state in LEADS_TO if not LEADS_TO[state]}
    assert arrows == inside | outside


def test_the_ends_and_the_drawing_have_every_state() -> None:
    text = text_of("docs/states.md")
    [sentence] = re.findall(r"^The states in which a task has ended are (.*)\.$", text, re.MULTILINE)
    assert set(words(sentence)) == ENDS == set(FINAL)
    drawing = blocks_of("docs/states.md", "text")[0]
    assert [state for state in STATES if not re.search(rf"\b{state}\b", drawing)] == []


def test_all_that_a_task_can_wait_for_is_listed() -> None:
    assert set(_first_words("docs/states.md", "What a task waits for")) == set(WAITS)


def test_all_classes_of_failure_are_listed() -> None:
    assert set(_first_words("docs/failures.md", "Classes")) == set(typing.get_args(FailureClass))


def test_all_keys_of_a_playbook_and_all_types_are_listed() -> None:
    assert set(_first_words("docs/playbooks.md", "Every key")) == set(Statement.model_fields)
    assert set(_first_words("docs/playbooks.md", "Types")) >= set(WORDS)


def test_the_defaults_of_a_playbook_are_as_listed() -> None:
    table = {words(row[0])[0]: words(row[1]) for row in rows(section("docs/playbooks.md", "Every key"))}
    shown = {key: default[0] for key, default in table.items() if default and key != "input"}
    defaults = {key: field.default for key, field in Statement.model_fields.items()} | {"priority": "P2"}
    assert Statement.model_fields["priority"].default == 2
    assert shown == {key: default for key, default in defaults.items() if isinstance(default, str)}


def test_all_of_the_desk_is_listed(house: House) -> None:
    task = {"id": "", "tenant": "", "version": 1}
    desk: Any = Desk(task, None, None, None, house.clock, house.clock.now(), None)  # type: ignore[arg-type]
    public = {name for name in [*vars(desk), *vars(Desk)] if not name.startswith("_")}
    assert set(_first_words("docs/journal.md", "All of `desk`")) == public


def test_every_setting_that_is_one_value_is_listed_with_its_variable(tmp_path: Path) -> None:
    listed = {words(row[0])[0]: words(row[4]) for row in rows(text_of("docs/settings.md")) if len(row) == 5}
    named = {setting: names[0] for setting, names in listed.items() if names}
    defaults = {
        f"{part}.{key}": str(default)
        for part, values in Settings().model_dump().items()
        for key, default in values.items()
        if not isinstance(default, dict)
    }
    assert set(named) == set(defaults)
    stated = {variable: defaults[setting] for setting, variable in named.items()}
    assert load_settings(tmp_path, stated) == Settings()
    assert all(variable == f"NIGHTDESK_{setting.replace('.', '_').upper()}" for setting, variable in named.items())


def test_all_of_asking_models_that_has_a_name_is_listed() -> None:
    assert set(_first_words("docs/lanes.md", "Lanes and waves")) == set(LANES)
    assert _first_words("docs/limits.md", "Breakers") == list(typing.get_args(State))
    limits = rows(section("docs/limits.md", "Limits of your own"))[-len(RateSettings.model_fields) :]
    assert [words(row[0])[0] for row in limits] == list(RateSettings.model_fields)
    keys = words(section("docs/models.md", "Keys"))
    stated = {name for provider in PROVIDERS.values() for name in (*provider.key_variables, provider.url_variable)}
    assert stated <= set(keys)


def test_all_faults_and_settings_of_the_simulator_are_listed() -> None:
    assert set(_first_words("docs/simulator.md", "Faults")) == KINDS
    listed = set(_first_words("docs/simulator.md", "Settings"))
    assert listed == set(vars(Behaviour())) | {"faults", "clear", "advance", "clear_meter"}


def test_every_metric_is_listed(house: House) -> None:
    metrics = Metrics(house.db, SystemClock())
    names = re.findall(r"^# TYPE (\w+) (?!.*_created)", metrics.render().decode(), re.MULTILINE)
    made = {name.removesuffix("_total") for name in names if not name.endswith("_created")}
    assert set(_first_words("docs/operations.md", "Metrics")) == made


def _commands() -> Iterator[tuple[str, Any]]:
    def below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                yield from below(inner, f"{path} {name}")
        if not hasattr(command, "commands"):
            yield path, command

    yield from below(typer.main.get_command(app), "nightdesk")


def _usage(path: str, command: Any) -> str:
    shown = [path]
    for argument in command.params:
        if argument.param_type_name == "argument":
            name = (argument.metavar or argument.name.upper()).strip("[]")
            shown.append(name if argument.required else f"[{name}]")
    return " ".join(shown)


def _options(command: Any) -> list[str]:
    found = [option for option in command.params if option.param_type_name == "option" and not option.hidden]
    return [option.opts[0] for option in found]


def test_every_command_is_listed_with_its_arguments() -> None:
    listed = [words(heading)[0] for heading in headings("docs/commands.md")[1:]]
    assert sorted(listed) == sorted(_usage(path, command) for path, command in _commands())


@pytest.mark.parametrize(("path", "command"), list(_commands()), ids=lambda part: part if isinstance(part, str) else "")
def test_every_option_of_the_command_is_listed(path: str, command: Any) -> None:
    listed = _first_words("docs/commands.md", f"`{_usage(path, command)}`")
    assert sorted(listed) == sorted(option for option in _options(command) if option != "--json")


def test_json_is_everywhere_but_where_the_page_says() -> None:
    [row] = [row for row in rows(section("docs/commands.md", "Commands")) if row[0] == "`--json`"]
    without = {path.removeprefix("nightdesk ") for path, command in _commands() if "--json" not in _options(command)}
    assert set(words(row[1])) == without


def test_every_endpoint_is_listed(house: House) -> None:
    paths = create_app(house, Rooms(PATIENCE_SECONDS)).openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert {words(heading)[0] for heading in headings("docs/api.md") if heading.startswith("`")} == served


def test_every_scope_is_listed() -> None:
    assert _first_words("docs/api.md", "Scopes") == list(SCOPES)


def test_every_type_of_problem_is_listed_with_its_status() -> None:
    listed = {(words(row[0])[0], int(row[1])) for row in rows(section("docs/api.md", "Refusals"))}
    framework = {("not-found", 404), ("method-not-allowed", 405)}  # Starlette's own; other statuses it never sends here
    assert listed == set(_problems()) | framework


def _problems() -> Iterator[tuple[str, int]]:
    """Every status and kind that stand side by side in a call somewhere in `web`."""
    for file in _WEB.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call):
                constants = [part.value for part in call.args if isinstance(part, ast.Constant)]
                match ast.unparse(call.func).rpartition(".")[2], constants:
                    case "Problem", [int(status), str(kind), *_]:
                        yield kind, status
                    case "_unavailable", [str(kind), int(_)]:
                        yield kind, 503


def test_the_task_of_the_api_page_has_the_fields_that_answers_have(house: House) -> None:
    receipt = submit(house, Submission("drill", {"name": "a"}))
    shown = json.loads(blocks_of("docs/api.md", "json")[0])
    assert list(shown) == list(find_task(house, receipt.id))


def test_the_callback_of_the_page_has_the_fields_that_callbacks_have(house: House) -> None:
    receipt = submit(house, Submission("drill", {"name": "a"}, callback_url="http://127.0.0.1:9/told"))
    cancel(house, receipt.id, actor="test")
    with house.db.read() as conn:
        sent = conn.execute(notices.select()).one().payload
    shown = json.loads(blocks_of("docs/intake.md", "json")[0])
    assert (set(shown), set(shown["data"])) == (set(sent), set(sent["data"]))


def test_the_readme_names_both_commands_and_where_the_figures_go() -> None:
    readme = text_of("README.md")
    assert [command for command in ("make night", "make test") if command not in readme] == []
    assert readme.index("<!-- bench -->") < readme.index("<!-- /bench -->")


def test_the_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in ("README.md", "CONTRIBUTING.md") for name in re.findall(r"`make ([a-z]+)", text_of(page))}
    assert named <= targets
