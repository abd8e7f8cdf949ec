"""How an error reads in the terminal: what is wrong, each fault on its own line, and a next step."""

import sys
import traceback

import typer

from nightdesk.errors import Conflict, Invalid, NightdeskError


class Debug:
    """Whether `--debug` was given: set while the command line is read, looked at when something fails."""

    def __init__(self) -> None:
        self.wanted = False


def is_outage(error: BaseException) -> bool:
    """Whether the database could not be used. While the store is not even imported, it was not asked."""
    if "nightdesk.store" not in sys.modules:
        return False
    from nightdesk.store import is_outage as store_is_outage

    return store_is_outage(error)


def explain(error: Exception, debug: bool) -> None:
    """Write the error to standard error."""
    if debug:
        traceback.print_exception(error)
    heading, *rest = _lines(error)
    typer.secho(visible(heading), err=True, fg="red")
    for line in rest:
        typer.echo(visible(line), err=True)


def _lines(error: Exception) -> list[str]:
    if isinstance(error, NightdeskError):
        return [*refusal_lines(error), *([error.next_step] if error.next_step else [])]
    if is_outage(error):
        reason = _first_line(getattr(error, "orig", None) or error)
        return [f"The database cannot be used now ({reason}).", "See whether it runs, or run: nightdesk doctor"]
    if isinstance(error, OSError):
        return [f"{error.filename or 'The system'}: {error.strerror or error}.", "Mend that, then try again."]
    return [
        f"Something unexpected went wrong ({type(error).__name__}: {_first_line(error)}).",
        "Run the same again as `nightdesk --debug …` to see where.",
    ]


def refusal_lines(error: NightdeskError) -> list[str]:
    if isinstance(error, Invalid) and error.faults:
        faults = (f"  {path}: {fault}" if path else f"  {fault}" for path, fault in error.faults)
        return [f"{error.heading}:", *faults]
    if isinstance(error, Conflict):
        return [error.problem, *(f"  differs: {path}" for path in error.differs)]
    return [error.problem]


def visible(text: str) -> str:
    """The text with everything that could steer a terminal, or hide in it, written as an escape."""
    return text if text.isprintable() else "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char.isprintable() or char in "\n\t":
        return char
    return char.encode("unicode_escape", errors="backslashreplace").decode("ascii")


def _first_line(error: object) -> str:
    return next(iter(str(error).strip().splitlines()), "no reason given")
