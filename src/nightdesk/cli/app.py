"""All commands under one name, and what becomes of an error that none of them expected."""

import os
import sys
from typing import Annotated

import typer

from nightdesk.cli import (
    add,
    audit,
    breaker,
    budget,
    calls,
    dead,
    doctor,
    drill,
    emit,
    init,
    lint,
    night,
    plan,
    playbooks,
    rehearse,
    review,
    serve,
    simulator,
    status,
    summary,
    switches,
    tasks,
    tokens,
    trial,
    up,
)
from nightdesk.cli.refusals import Debug, explain

app = typer.Typer(
    name="nightdesk",
    help="Queue work for AI agents by day, have it done overnight, review it in the morning.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def house(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    context.obj.wanted = debug


app.command("init")(init.init)
app.command("up")(up.up)
app.command("web")(serve.web)
app.command("worker")(serve.worker)
app.command("prepare", hidden=True)(serve.prepare)
app.command("add")(add.add)
app.add_typer(tasks.app, name="tasks")
app.add_typer(dead.app, name="dead")
app.add_typer(playbooks.app, name="playbooks")
app.command("status")(status.status)
app.add_typer(review.app, name="review")
app.command("pause")(switches.pause)
app.command("stop")(switches.stop)
app.command("resume")(switches.resume)
app.command("calls")(calls.calls)
app.add_typer(budget.app, name="budget")
app.add_typer(breaker.app, name="breaker")
app.add_typer(audit.app, name="audit")
app.add_typer(tokens.app, name="token")
app.command("doctor")(doctor.doctor)
app.command("emit")(emit.emit)
app.command("night")(night.night)
app.command("summary")(summary.summary)
app.command("lint")(lint.lint)
app.add_typer(plan.app, name="plan")
app.command("drill")(drill.drill)
app.command("rehearse")(rehearse.rehearse)
app.command("test")(trial.trial)
app.command("simulator")(simulator.simulator)


def run() -> int:
    """Run the command that the process was called with; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows no UTF-8 gets escapes, not a traceback
            stream.reconfigure(errors="backslashreplace")
    debug = Debug()
    code = _call(debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader left early, as `head` does; Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _call(debug: Debug) -> int:
    try:
        typer.main.get_command(app)(prog_name="nightdesk", obj=debug)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        explain(error, debug.wanted)
        return 1
    return 0
