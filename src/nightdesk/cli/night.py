"""`nightdesk night`: attend the night as scheduled, or begin one now; a view of it until it is closed."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from nightdesk.cli.rooms import home_folder, opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_json
from nightdesk.errors import Invalid, NotFound

if TYPE_CHECKING:
    from nightdesk.cli.supervise import Child
    from nightdesk.house import House

_LOOK_SECONDS = 0.5
_asked_to_end = threading.Event()


def night(
    now: Annotated[bool, typer.Option("--now", help="Begin one at once, for all that is queued.")] = False,
    until: Annotated[str | None, typer.Option(metavar="HH:MM", help="With --now: its hard stop.")] = None,
    anyway: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLAYBOOK=WHY", help="With --now: plan this playbook although it has not passed its tests."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Attend the night until it is closed. A worker is started if none is there."""
    if not now and (until or anyway):
        raise Invalid("That is for a night that begins now", [("--now", "is missing")])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    with opened() as house:
        name = _begin(house, until, anyway or []) if now else None
        figures = _attend(house, name)
    _show(figures, json)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    _asked_to_end.set()
    raise KeyboardInterrupt


def _begin(house: "House", until: str | None, anyway: list[str]) -> str:
    from nightdesk.night.by_hand import begin_now

    return begin_now(house, until, dict(map(_reason, anyway)), actor=actor())


def _reason(stated: str) -> tuple[str, str]:
    playbook, _, why = stated.partition("=")
    if not why.strip():
        raise Invalid("The reason is missing", [("--anyway", "must be a playbook and why, as in blog-draft='launch'")])
    return playbook, why.strip()


def _attend(house: "House", name: str | None) -> Mapping[str, Any]:
    """Look on until the night is closed, with a worker of our own while no other is there."""
    from nightdesk.cli.night_view import view
    from nightdesk.cli.supervise import Child, nightdesk, stop
    from nightdesk.night.progress import look

    environment = {**os.environ, "NIGHTDESK_HOME": str(home_folder()), "NIGHTDESK_LOG_LEVEL": "WARNING"}
    worker = Child("worker", nightdesk("worker"), environment=environment)
    try:
        with view(house.settings.night.zone) as shown:
            while True:
                if _asked_to_end.is_set():  # an exception that is raised while a library cleans up is lost
                    raise KeyboardInterrupt
                _keep_a_worker(house, worker)
                name = name or _scheduled(house)
                if name is None:
                    shown.wait_for(_next(house), house.clock.now())
                else:
                    progress = look(house, name)
                    shown.show(progress)
                    if progress.state == "closed":
                        return _figures(house, name)
                time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        note(_left_behind(worker))
        raise
    finally:
        stop([worker])


def _keep_a_worker(house: "House", worker: "Child") -> None:
    from nightdesk.engine import workers

    if worker.process is not None or not any(known["alive"] for known in workers(house.db)):
        worker.tend()


def _left_behind(worker: "Child") -> str:
    if worker.process is None:
        return "The night goes on without this view; see it again with: nightdesk night"
    return "The night is parked, for its only worker ends with this command; go on with: nightdesk night"


def _scheduled(house: "House") -> str | None:
    """The night of the house that is under way."""
    from nightdesk.night.schedule import nights_under_way

    return next((night["name"] for night in nights_under_way(house)), None)


def _next(house: "House") -> Any:
    from nightdesk.calendar import next_night

    window = next_night(house.settings.night, house.clock.now())
    if window is None:
        raise NotFound(
            "No day is a night's.", "State days in nightdesk.toml under [night], or run: nightdesk night --now"
        )
    return window


def _figures(house: "House", name: str) -> Mapping[str, Any]:
    from nightdesk.night.schedule import read_night

    figures = read_night(house, name)["figures"]
    kept = ("done", "review", "dead", "cost_usd", "live_cost_usd", "saved_usd", "started_at", "ended_at")
    counts = {"night": name, "planned": figures["planned"], "waiting": sum(figures["waiting"].values())}
    return counts | {key: figures[key] for key in kept}


_NAMES = (
    "night", "planned", "done", "review", "waiting", "dead", "cost_usd", "live_cost_usd", "saved_usd", "started_at",
    "ended_at",
)  # fmt: skip


def _show(figures: Mapping[str, Any], json: bool) -> None:
    if json:
        show_json({name: figures[name] for name in _NAMES})
        return
    say(
        f"The night of {figures['night']} is closed: {figures['done']} done, {figures['review']} on the desk, "
        f"{figures['waiting']} waiting, {figures['dead']} dead. "
        f"It cost ${figures['cost_usd']}; ${figures['saved_usd']} was saved by waiting."
    )
