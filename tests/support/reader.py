"""A reader who does what a page says: writes its files, runs its scripts, types its commands into one shell."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from nightdesk.model.simulator import environment
from nightdesk.settings import database_url, load_settings
from nightdesk.store import budgets, open_database, tasks
from tests.support.pages import Block, Command, commands
from tests.support.postgres import free_port
from tests.support.processes import wait_until

_ADDRESS = "127.0.0.1:8484"
_SIMULATOR = "127.0.0.1:8787"
_POSTGRES = "postgresql://nightdesk@db.internal/nightdesk"
# What each program that serves has written once it does.
_SERVES = {
    "up": ("Nightdesk is up at", '"executor"'),
    "web": ("is listening",),
    "worker": ('"executor"',),
    "simulator": ("The simulator is running.",),
}
_SERVER = re.compile(r"nightdesk (up|web|worker|simulator)(?: --.*)?$")
_MARK = "\x1emark"
_SECONDS = 60
_CURL = Path(__file__).with_name("curl.py")


class Reader:
    """One page's reader. Programs that serve run until the next section of the page, and must then end well.

    What the simulator says is to be exported, the reader exports.
    """

    def __init__(self, folder: Path, *, postgres_url: str = "", curl: str = "") -> None:
        folder.mkdir()
        self._folder = folder
        self._port = free_port()
        self._simulator_port = free_port()
        self._postgres_url = postgres_url
        self._section = ""
        self._servers: list[tuple[str, str, Path]] = []
        self._shell = subprocess.Popen(
            ["sh"], cwd=folder, env=self._environment(curl), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        self.type("nightdesk init house && cd house")

    def follow(self, block: Block) -> None:
        if block.section != self._section:
            self.stop_servers()
            self._section = block.section
        if block.file:
            file = self.home / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._run_script(block.text)
        elif block.language == "console":
            for command in commands(block):
                self._obey(command)

    @property
    def home(self) -> Path:
        return Path(self.type("pwd").strip())

    def type(self, line: str) -> str:
        """Run the line; a failure fails the test."""
        code, output = self._run(line)
        assert code == 0, f"exit code {code}: {line}\n{output}"
        return output

    def close(self) -> None:
        """Leave nothing running, however the page ended."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()

    def stop_servers(self) -> None:
        for _, pid, log in self._servers:
            code, _ = self._run(f"kill -TERM {pid}; wait {pid}")
            assert code == 0, log.read_text(encoding="utf-8")
        self._servers.clear()

    def _obey(self, command: Command) -> None:
        line, shown = self._at_home(command.line), self._at_home(command.shown)
        server = _SERVER.match(line)
        if server:
            self._serve(server[1], line, shown)
            return
        if any(name != "simulator" for name, *_ in self._servers):
            wait_until(self._is_at_rest, _SECONDS, "the tasks have come to rest")
        output = self.type(line)
        assert not shown or _fits(shown, output), f"$ {line}\nshown:\n{shown}\nfound:\n{output}"

    def _at_home(self, text: str) -> str:
        """With this reader's own addresses in place of those that the pages name."""
        own = {_ADDRESS: f"127.0.0.1:{self._port}", _SIMULATOR: f"127.0.0.1:{self._simulator_port}"}
        for stated, address in {**own, _POSTGRES: self._postgres_url}.items():
            text = text.replace(stated, address)
        return text

    def _serve(self, name: str, line: str, shown: str) -> None:
        log = self._folder / f"served-{self._port}-{len(self._servers)}.log"
        log.write_text("", encoding="utf-8")
        where = f" --port {self._simulator_port}" if name == "simulator" else ""
        pid = self.type(f"{line}{where} > {log} 2>&1 & echo $!").strip()
        self._servers.append((name, pid, log))
        wait_until(
            lambda: all(word in log.read_text(encoding="utf-8") for word in _SERVES[name]), _SECONDS, f"{line} serves"
        )
        written = log.read_text(encoding="utf-8")
        assert all(_fits(f"…\n{told}\n…", written) for told in shown.splitlines()), f"{shown}\nnot in\n{written}"
        for export in re.findall(r"^export .*", written, re.MULTILINE):
            self.type(export)

    def _run_script(self, text: str) -> None:
        script = self._folder / "script.py"
        script.write_text(text, encoding="utf-8")
        self.type(f"python {script}")

    def _is_at_rest(self) -> bool:
        """Whether no task is at work, or about to be."""
        home = self.home
        stated = self.type('printf %s "$NIGHTDESK_DATABASE_URL"')
        url = stated or database_url(load_settings(home, {}), home)
        passing = tasks.c.waiting_for.in_(("retry", "batch", "limit"))
        # Money was freed or allowed since the task began to wait for it: it will be woken.
        funded = sa.exists(sa.select(budgets.c.scope).where(budgets.c.freed_at > tasks.c.updated_at))
        will_go_on = passing | ((tasks.c.waiting_for == "budget") & funded)
        at_work = (tasks.c.state == "working") | tasks.c.rank.is_not(None) | will_go_on
        with closing(open_database(url)) as database, database.read() as conn:
            return conn.execute(sa.select(sa.func.count()).where(at_work)).scalar_one() == 0

    def _run(self, line: str) -> tuple[int, str]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f'{{ {line}\n}} < /dev/null\necho "{_MARK} $?"\n')
        self._shell.stdin.flush()
        output: list[str] = []
        for found in self._shell.stdout:
            before, mark, code = found.partition(_MARK)
            output.append(before)
            if mark:
                return int(code), "".join(output)
        raise AssertionError(f"the shell ended: {line}\n{''.join(output)}")

    def _environment(self, curl: str) -> Mapping[str, str]:
        """Ours without anybody's keys, with the program and a curl to be found, and this reader's port for the API."""
        programs = self._folder.with_name("programs")
        programs.mkdir()
        stand_in = programs / "curl"
        found = curl or shutil.which("curl")
        stand_in.write_text(f'#!/bin/sh\nexec {found or f"{sys.executable} {_CURL}"} "$@"\n', encoding="utf-8")
        stand_in.chmod(0o700)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        others = ("NIGHTDESK_", "PG", *environment(""))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        return kept | {"PATH": path, "PYTHONUTF8": "1", "NIGHTDESK_API_PORT": str(self._port)}


STAND_IN_FOR_CURL = f"{sys.executable} {_CURL}"


def _fits(shown: str, output: str) -> bool:
    """Whether the output is as shown, where … stands for anything, and on a line of its own for any lines."""
    lines = [line.rstrip() for line in shown.splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r" *\n" for line in lines
    )
    plain = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    return re.fullmatch(pattern, plain) is not None
