"""Logs: one JSON object per line on stderr, with what is bound to the work at hand, and masked.

A line has `ts`, `level`, `logger`, `action` and `message`, and of job_id, step, prior_state, state, duration_ms,
status, attempt, model, tools and cost_usd those that apply. A value that cannot be written never raises.

    log = get_logger(__name__)
    with bound(job_id=task_id):
        log.info("The step is done.", action="step_done", step="research", duration_ms=12)
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, cast

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from nightdesk.canonical import Json, jsonable

Mask = Callable[[Json], Json]

_LEVELS = logging.getLevelNamesMapping()
# These bring handlers of their own, which would write past ours.
_WITH_HANDLERS = ("dbos", "uvicorn", "uvicorn.error", "uvicorn.access")


class _Settings:
    """From which level on lines are written, and what masks them."""

    def __init__(self) -> None:
        self.lowest = logging.WARNING
        self.mask: Mask = lambda value: value


class _Output:
    """What structlog hands finished lines to, and the name they bear."""

    _lock = threading.Lock()

    def __init__(self, name: str = "nightdesk") -> None:
        self.name = name

    def msg(self, line: str) -> None:
        """Write one line. A log that cannot be written must not end the work that it tells of."""
        with self._lock:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                return

    debug = info = warning = error = critical = msg


_settings = _Settings()


def configure(level: str, mask: Mask) -> None:
    """Start logging in this process: set the level, and send the loggers of others the same way.

    `mask` takes plain JSON data and returns it without personal data and secrets.
    """
    _settings.lowest, _settings.mask = _LEVELS[level], mask
    structlog.configure(
        processors=_PROCESSORS, wrapper_class=_WRAPPER, logger_factory=_Output, cache_logger_on_first_use=False
    )
    logging.basicConfig(handlers=[_Bridge()], level=_LEVELS[level], force=True)
    logging.captureWarnings(True)
    for name in _WITH_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def get_logger(name: str) -> FilteringBoundLogger:
    """Writes our lines to stderr from warnings up, even in a process that has not called `configure`."""
    logger = structlog.wrap_logger(cast(Any, _Output(name)), processors=_PROCESSORS, wrapper_class=_WRAPPER)
    return cast(FilteringBoundLogger, logger)


def bound(**fields: Any) -> AbstractContextManager[None]:
    """Put the fields on every line written inside, in this thread or async task and those begun from it."""
    return bound_contextvars(**fields)


class _Bridge(logging.Handler):
    """Writes the records of the standard library's loggers as our lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # the arguments do not fit the text: show both
            message = f"{record.msg} {record.args!r}"
        event: EventDict = {"event": message, "exc_info": record.exc_info}
        output = _Output(record.name)
        output.msg(_render(output, record.levelname.lower(), merge_contextvars(output, "", event)))


def _drop_below(_logger: object, level: str, event: EventDict) -> EventDict:
    if _LEVELS[level.upper()] < _settings.lowest:
        raise structlog.DropEvent
    return event


def _render(output: Any, level: str, event: EventDict) -> str:
    error = event.pop("exc_info", None)
    message = event.pop("event", "")
    fields = {"logger": output.name, "action": output.name, "message": message, **event}
    if error:
        fields["traceback"] = _traceback(error)
    head = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), "level": level}
    return json.dumps(head | _masked(fields) | head)


def _masked(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        return cast(dict[str, Any], _settings.mask(jsonable(fields)))
    except Exception:  # a value that is no JSON, or refuses to be shown
        return cast(dict[str, Any], _settings.mask({key: _shown(value) for key, value in fields.items()}))


def _shown(value: object) -> Json:
    try:
        return jsonable(value)
    except Exception:
        try:
            return jsonable(repr(value))
        except Exception:
            return f"<{type(value).__name__} that cannot be shown>"


def _traceback(error: Any) -> str:
    found = sys.exc_info() if error is True else error
    if isinstance(found, BaseException):
        found = (type(found), found, found.__traceback__)
    return "".join(traceback.format_exception(*found)) if found[0] else ""


_PROCESSORS: list[Processor] = [_drop_below, merge_contextvars, _render]
_WRAPPER = structlog.make_filtering_bound_logger(logging.DEBUG)
