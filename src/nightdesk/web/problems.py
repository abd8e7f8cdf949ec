"""Refusals as RFC 9457 problem documents. `type` is stable, so that programs can tell refusals apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from nightdesk.canonical import jsonable
from nightdesk.errors import (
    Conflict,
    DiskFull,
    Forbidden,
    Invalid,
    NightdeskError,
    NotFound,
    TooMany,
    Unavailable,
    Untimely,
)
from nightdesk.intake.requests import KeyReused, StillRunning
from nightdesk.playbook.faults import dotted
from nightdesk.review.asked import Decided

Fault = tuple[str, str]

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:nightdesk:problem:"


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE


@dataclass(eq=False)
class Problem(Exception):
    """A refusal, ready to be sent. `kind` ends the type; errors are (path, what is wrong there); `further` are members
    that only this kind has."""

    status: int
    kind: str
    detail: str
    next_step: str = ""
    errors: Sequence[Fault] = ()
    differs: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": _PREFIX + self.kind,
            "title": self.kind.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
        }
        if self.next_step:
            found["next_step"] = self.next_step
        if self.errors:
            found["errors"] = [{"path": path, "message": message} for path, message in self.errors]
        if self.differs:
            found["differs"] = list(self.differs)
        return found | dict(self.further)

    def response(self) -> ProblemResponse:
        return ProblemResponse(jsonable(self.document()), self.status, headers=dict(self.headers))


def problem_of(error: BaseException) -> Problem:
    """The refusal that an error stands for; what nobody foresaw is a 500 that tells nothing."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, NightdeskError):
        return _refused(error)
    if isinstance(error, RequestValidationError):  # of path and query; loc begins with which of them
        return invalid([(dotted(fault["loc"][1:]), _in_words(fault)) for fault in error.errors()])
    if isinstance(error, HTTPException):
        return _of_framework(error)
    if isinstance(error, ClientDisconnect):
        return Problem(400, "bad-request", "The request ended before its body did.")
    return Problem(500, "internal-error", "The request failed for a reason that is ours.", "It is in the log.")


def invalid(errors: Sequence[Fault]) -> Problem:
    return Problem(422, "invalid", "The request does not fit the schema.", "Mend what `errors` lists.", errors)


def _in_words(fault: Mapping[str, Any]) -> str:
    unknown = fault["type"] == "extra_forbidden"
    return "is not a known parameter; /openapi.json lists them" if unknown else str(fault["msg"])


def _refused(error: NightdeskError) -> Problem:
    if isinstance(error, Untimely):  # 409, as it fits the schema
        return Problem(409, "untimely", error.heading + ".", error.next_step, errors=error.faults)
    if isinstance(error, Invalid):
        return Problem(422, "invalid", error.heading + ".", error.next_step, errors=error.faults)
    if isinstance(error, NotFound):
        return Problem(404, "not-found", error.problem, error.next_step)
    if isinstance(error, Forbidden | TooMany | Decided):
        return _not_decided(error)
    if isinstance(error, KeyReused):
        return Problem(422, "key-reused", error.problem, error.next_step)
    if isinstance(error, StillRunning):
        return Problem(409, "still-running", error.problem, error.next_step, headers={"Retry-After": "1"})
    if isinstance(error, Conflict):
        return Problem(409, "conflict", error.problem, error.next_step, differs=error.differs)
    if isinstance(error, DiskFull):
        return _unavailable(error, "disk-full", 30)
    if isinstance(error, Unavailable):
        return _unavailable(error, "unavailable", 2)
    return Problem(400, "refused", error.problem, error.next_step)


def _not_decided(error: Forbidden | TooMany | Decided) -> Problem:
    if isinstance(error, Decided):
        outcome = {"outcome": error.outcome.as_json()}
        return Problem(409, "decided", error.problem, error.next_step, further=outcome)
    if isinstance(error, TooMany):
        wait = {"Retry-After": str(error.seconds)}
        return Problem(429, "too-many", error.problem, error.next_step, headers=wait)
    challenge = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
    right = {"right": error.right}
    return Problem(403, "forbidden", error.problem, error.next_step, headers=challenge, further=right)


def _unavailable(error: Unavailable, kind: str, retry_seconds: int) -> Problem:
    next_step = error.next_step or "Send the same request again later."
    return Problem(503, kind, error.problem, next_step, headers={"Retry-After": str(retry_seconds)})


def _of_framework(error: HTTPException) -> Problem:
    """What Starlette refuses by itself: unknown paths, wrong methods."""
    phrase = HTTPStatus(error.status_code).phrase
    kind = phrase.lower().replace(" ", "-")
    return Problem(error.status_code, kind, f"{phrase}.", "See /openapi.json.", headers=error.headers or {})
