"""The real command in a real house."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_house_folder
from tests.support.processes import PROGRAM, environment


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Terminal:
    """Runs the command and holds its exit code against the one that is expected."""

    home: Path

    def __call__(
        self, *arguments: str, code: int = 0, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Answer:
        ended = subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.home,
            env=environment(self.home, env),
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        answer = Answer(ended.returncode, ended.stdout.decode(), ended.stderr.decode())
        assert answer.code == code, answer
        assert "Traceback" not in answer.err or "--debug" in arguments, answer
        return answer

    def refuses(self, *arguments: str, code: int = 1, **given: Any) -> str:
        """What it says on standard error; on standard output it says nothing."""
        answer = self(*arguments, code=code, **given)
        assert answer.out == "", answer
        return answer.err


@pytest.fixture
def nightdesk(tmp_path: Path, sqlite_url: str) -> Terminal:
    """In a house of this test's own, on SQLite."""
    return Terminal(make_house_folder(tmp_path / "house", sqlite_url))


@pytest.fixture
def nightdesk_on_either(house_folder: Path) -> Terminal:
    """The same on both databases."""
    return Terminal(house_folder)
