"""Failures (the classes are in `errors`), told apart by what happens next: try again, ask a person, give up."""

import random
import sys
import traceback
from typing import Literal

from nightdesk.canonical import Json, storable
from nightdesk.errors import AskPerson, GiveUp, Invalid, Overrun, RetryLater

FailureClass = Literal["transient", "person", "overrun", "poison", "bug", "refused"]

RETRY_SECONDS = (1.0, 4.0, 16.0, 60.0)
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_TRACEBACK = 20_000
_LONGEST_MESSAGE = 4_000


def classify(error: BaseException) -> FailureClass:
    match error:
        case AskPerson() | Invalid():
            return "person"
        case GiveUp():
            return "refused"
        case Overrun():
            return "overrun"
        case RetryLater() | TimeoutError() | ConnectionError():
            return "transient"
    return "transient" if _is_transport_error(error) or _status(error) in _TRANSIENT_STATUS else "bug"


def retry_delay(failures: int, rng: random.Random) -> float:
    """Full jitter: anything from nothing to 1, 4, 16 or 60 s, so that failures do not return in step."""
    return rng.uniform(0, RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1])


def describe(error: BaseException, step: str | None = None) -> Json:
    """What a dead letter keeps of an error."""
    text = "".join(traceback.format_exception(error))
    return {
        "class": classify(error),
        "type": type(error).__qualname__,
        "message": message_of(error),
        "step": step,
        "traceback": storable(text[-_LONGEST_TRACEBACK:]),
    }


def message_of(error: BaseException) -> str:
    """What the error says, cut to a readable length; an error that says nothing gives its name."""
    return storable(str(error)[:_LONGEST_MESSAGE]) or type(error).__qualname__


def _is_transport_error(error: BaseException) -> bool:
    """httpx is not imported for this: an error of its can only come up where somebody has."""
    httpx = sys.modules.get("httpx")
    return httpx is not None and isinstance(error, httpx.TransportError)


def _status(error: BaseException) -> int | None:
    """The HTTP status that the error of an SDK or of httpx carries, if it carries one."""
    found = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None
