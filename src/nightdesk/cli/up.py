"""`nightdesk up`: web and worker as two supervised processes, for one machine and nothing else to run."""

import contextlib
import signal
import socket
import subprocess
import threading
from typing import Annotated

import typer

from nightdesk.cli.rooms import home_folder
from nightdesk.cli.terminal import say
from nightdesk.errors import NightdeskError

_LOOK_SECONDS = 0.1
_LONGEST_PAUSE = 30.0
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # nosec B104: where to knock, not to listen


def up(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the web process; 0 takes a free one.")
    ] = None,
) -> None:
    """Run web and worker here, and start again what dies."""
    from nightdesk.guard.masking import mask_json
    from nightdesk.settings import load_settings
    from nightdesk.watch.logs import configure

    settings = load_settings(home_folder())
    configure(settings.log.level, mask_json)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    host = settings.api.host
    chosen = _free_port(host, settings.api.port if port is None else port)
    debug = ["--debug"] if context.obj.wanted else []
    if _prepared(debug, stopping):
        _supervise(host, chosen, debug, stopping)


def _supervise(host: str, port: int, debug: list[str], stopping: threading.Event) -> None:
    from nightdesk.cli.supervise import Child, nightdesk, stop

    command = nightdesk(*debug, "web", "--host", host, "--port", str(port))
    web = Child("web process", command, answers=lambda: _answers(host, port))
    children = [web, Child("worker", nightdesk(*debug, "worker"))]
    told = False
    try:
        while not stopping.wait(_LOOK_SECONDS):
            for child in children:
                child.tend()
            if web.ready and not told:
                say(f"Nightdesk is up at {_address(host, port)}")
                told = True
    finally:
        stop(children)


def _prepared(debug: list[str], stopping: threading.Event) -> bool:
    """Bring the database up to date in a process of its own, so that this one stays small. False: told to stop."""
    from nightdesk.cli.serve import OUTAGE
    from nightdesk.cli.supervise import nightdesk

    pause = 1.0
    while not stopping.is_set():
        process = subprocess.Popen(nightdesk(*debug, "prepare"), stdin=subprocess.DEVNULL, process_group=0)
        while (code := process.poll()) is None and not stopping.wait(_LOOK_SECONDS):
            pass
        if code is None:
            process.terminate()
            process.wait()
        elif code == 0:
            return True
        elif code != OUTAGE:
            raise typer.Exit(1)  # it has said why
        stopping.wait(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)
    return False


def _free_port(host: str, port: int) -> int:
    """The port, found free; for 0 one that is. Settled here, so that a restart of the web process keeps it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            problem = f"Nightdesk cannot listen on {_address(host, port)} ({error.strerror})."
            raise NightdeskError(problem, "Give another port, as in: nightdesk up --port 8585") from None
        return int(probe.getsockname()[1])


def _answers(host: str, port: int) -> bool:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(_ANY_ADDRESS.get(host, host), port, timeout=1)
    with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
        connection.request("GET", "/healthz/ready")
        return connection.getresponse().status == 200
    return False


def _address(host: str, port: int) -> str:
    shown = _ANY_ADDRESS.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
