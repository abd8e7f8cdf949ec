"""The long-running processes: `nightdesk web`, `nightdesk worker`, and what `up` does before it starts them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nightdesk.cli.refusals import explain, is_outage
from nightdesk.cli.rooms import opened

if TYPE_CHECKING:
    from nightdesk.house import House

# The exit code for "the database is away, try again" (EX_TEMPFAIL); a supervisor does so for ever.
OUTAGE = 75
# The web answers 503 after this; a worker has all night, and takes the house's own patience.
_WEB_PATIENCE_SECONDS = 5

_Lifeline = Annotated[int | None, typer.Option("--lifeline", hidden=True)]


def web(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    lifeline: _Lifeline = None,
) -> None:
    """Run the web process: API and pages."""
    with _serving(context, lifeline, _WEB_PATIENCE_SECONDS) as house:
        from nightdesk.web.serve import run_web

        api = house.settings.api
        code = run_web(house, api.host if host is None else host, api.port if port is None else port)
    raise typer.Exit(code)


def worker(context: typer.Context, lifeline: _Lifeline = None) -> None:
    """Run a worker: it takes tasks from the queue and does them."""
    with _serving(context, lifeline, None) as house:
        from nightdesk.worker import run_worker

        code = run_worker(house)
    raise typer.Exit(code)


def prepare(context: typer.Context) -> None:
    """Bring the database up to date, once, before several processes use it."""
    with _outage_is_temporary(context), opened(patience_seconds=None):
        pass


@contextmanager
def _serving(context: typer.Context, lifeline: int | None, patience_seconds: int | None) -> "Iterator[House]":
    with _outage_is_temporary(context), opened(patience_seconds=patience_seconds) as house:
        from nightdesk.cli.lifeline import hold
        from nightdesk.guard.masking import mask_json
        from nightdesk.watch.logs import configure

        configure(house.settings.log.level, mask_json)
        if lifeline is not None:
            hold(lifeline)
        yield house


@contextmanager
def _outage_is_temporary(context: typer.Context) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_outage(error):
            raise
        explain(error, context.obj.wanted)
        raise typer.Exit(OUTAGE) from None
