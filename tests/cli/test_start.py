"""The command opens at once, and whatever goes wrong is a sentence and a next step."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.support.processes import PROGRAM, environment

_HEAVY = ("dbos", "sqlalchemy", "fastapi", "starlette", "uvicorn", "pydantic", "alembic", "openpyxl", "httpx", "rich")
_GENEROUS_SECONDS = 0.3


def _modules_after(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in shown.stdout.split()}


@pytest.mark.parametrize("code", ["import nightdesk", "import nightdesk.cli", "import nightdesk.cli.app"])
def test_nothing_heavy_is_imported_to_start(code: str) -> None:
    assert _modules_after(code).isdisjoint(_HEAVY)


def test_help_opens_at_once(tmp_path: Path) -> None:
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([PROGRAM, "--help"], capture_output=True, check=True, env=environment(tmp_path))
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < _GENEROUS_SECONDS


def test_every_command_explains_itself(nightdesk: Terminal) -> None:
    shown = nightdesk("--help").out
    for command in (
        "init", "up", "web", "worker", "add", "tasks", "dead", "playbooks", "status", "pause", "stop", "resume",
        "audit", "token", "doctor", "night", "drill",
    ):  # fmt: skip
        assert f"\n  {command} " in shown
    assert "prepare" not in shown


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nightdesk.cli", "--help"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert ended.stdout.startswith("Usage: nightdesk ")


def test_a_wrong_command_line_is_answered_with_the_right_word(nightdesk: Terminal) -> None:
    assert "Did you mean 'status'?" in nightdesk.refuses("statsu", code=2)
    assert "No such option: --sate" in nightdesk.refuses("tasks", "list", "--sate", "done", code=2)
    assert "Missing option '--why'" in nightdesk.refuses("pause", code=2)


def test_a_refusal_is_a_sentence_and_a_next_step(nightdesk: Terminal) -> None:
    said = nightdesk.refuses("tasks", "show", "nothing-here")
    assert said == "There is no task nothing-here.\nList tasks with: nightdesk tasks list\n"


def test_a_traceback_comes_only_when_asked_for(nightdesk: Terminal) -> None:
    said = nightdesk.refuses("--debug", "tasks", "show", "nothing-here")
    assert said.startswith("Traceback")
    assert said.endswith("List tasks with: nightdesk tasks list\n")


def test_wrong_settings_are_all_named(nightdesk: Terminal) -> None:
    (nightdesk.home / "nightdesk.toml").write_text("[worker]\nconcurency = 1\n[api]\nport = -1\n", encoding="utf-8")
    said = nightdesk.refuses("status")
    assert 'worker.concurency: is not a known setting; did you mean "concurrency"?' in said
    assert "api.port: " in said


def test_a_database_that_is_away_is_a_sentence(nightdesk: Terminal) -> None:
    away = {"NIGHTDESK_DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}
    said = nightdesk.refuses("status", env=away)
    assert said.startswith("The database cannot be used now (")
    assert said.endswith("See whether it runs, or run: nightdesk doctor\n")


def test_a_folder_that_is_no_house_is_left_alone(tmp_path: Path) -> None:
    elsewhere = {name: value for name, value in environment(tmp_path).items() if name != "NIGHTDESK_HOME"}
    ended = subprocess.run(
        [PROGRAM, "status"], cwd=tmp_path, env=elsewhere, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"There is no house in {tmp_path}.\n")
    nowhere = Terminal(tmp_path).refuses("doctor", env={"NIGHTDESK_HOME": str(tmp_path / "nowhere")})
    assert nowhere.startswith(f"There is no house in {tmp_path / 'nowhere'}.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_is_no_error(nightdesk: Terminal) -> None:
    command = [PROGRAM, "playbooks", "list", "--json"]
    piped = subprocess.PIPE
    with subprocess.Popen(command, env=environment(nightdesk.home), stdout=piped, stderr=piped) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_what_hides_in_a_text_is_shown(nightdesk: Terminal) -> None:
    said = nightdesk.refuses("tasks", "show", "a\x1b[31m\u202e\u200bb")
    assert "There is no task a\\x1b[31m\\u202e\\u200bb." in said


def test_a_terminal_without_utf_8_gets_escapes(nightdesk: Terminal) -> None:
    nightdesk("add", "drill", '{"name": "Zoë"}')
    shown = nightdesk("tasks", "list", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert "Zo\\xeb" in shown.out
