"""What requests and answers look like. The OpenAPI document is made from these."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from nightdesk.canonical import Json
from nightdesk.intake.submit import NAME

# The same as in the store's tables; a test says so.
State = Literal[
    "queued", "planned", "working", "waiting", "review", "approved", "releasing",
    "done", "rejected", "expired", "cancelled", "dead",
]  # fmt: skip
Wait = Literal["batch", "retry", "budget", "person", "switch", "time", "turn", "breaker", "limit", "tasks"]

ID = r"^[A-Za-z0-9_-]{1,128}$"
WEB_ADDRESS = (
    r"^https?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
    r"(?::(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}))?(?:[/?#][!-~]*)?$"
)
TEXT = r"^[^\u0000]*$"  # what every database keeps
IDEMPOTENCY_KEY = r'^(?:"(?:[ !#-\[\]-~]|\\["\\]){1,255}"|[!#-~]{1,255})$'
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
_PRIORITIES: list[Json] = ["P0", "P1", "P2", "P3", 0, 1, 2, 3]


def _moment(value: object) -> datetime:
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("must be a time with its zone, like 2030-01-31T22:00:00Z")
    moment = datetime.fromisoformat(value.upper())
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # within a day of the calendar's first or last moment
        return moment.replace(tzinfo=UTC)


def _priority(value: object) -> object:
    if value not in _PRIORITIES or isinstance(value, bool):
        raise ValueError("must be P0, P1, P2 or P3")
    return value


Priority = Annotated[int | str, BeforeValidator(_priority), WithJsonSchema({"enum": _PRIORITIES})]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Money = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$", description="US dollars.")]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NewTask(RequestBody):
    """A task to be done. The same playbook, tenant and key are the same task."""

    playbook: str = Field(min_length=1, max_length=64, description="The kind of work.")
    input: dict[str, Any] = Field(description="What the playbook asks for.")
    key: Name | None = Field(None, description="What makes it the same task again.")
    tenant: Name | None = Field(None, description="Whose it is; the token's own tenant, else `main`.")
    priority: Priority | None = Field(None, description="P0 goes first.")
    not_before: Moment | None = Field(None, description="Not to be started earlier.")
    expires_at: Moment | None = Field(None, description="Not worth starting later.")
    callback_url: str | None = Field(
        None, max_length=2000, pattern=WEB_ADDRESS, description="Told, with a signature, when the task has ended."
    )


class Reason(RequestBody):
    """Why, for the record."""

    why: str = Field("", max_length=1000, pattern=TEXT)


class Choice(RequestBody):
    """A person's answer to the question that the task waits with."""

    choice: str = Field(min_length=1, max_length=1000, pattern=TEXT)
    step: str | None = Field(
        None, min_length=1, max_length=255, pattern=TEXT, description="Which question, if it asks several."
    )


class TaskFilters(BaseModel):
    """Which tasks to list. A parameter that is not known is refused: ignored, it would list too much."""

    model_config = ConfigDict(extra="forbid")

    state: State | None = None
    waiting_for: Wait | None = None
    playbook: str | None = Field(None, max_length=200, pattern=TEXT)
    tenant: str | None = Field(None, max_length=200, pattern=TEXT)
    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=500, pattern="^[A-Za-z0-9_-]+$", description="From `next_cursor`.")


class TaskStep(BaseModel):
    step: str
    occurrence: int = Field(ge=1)
    status: Literal["running", "done", "failed", "waiting"]
    attempt: int = Field(ge=1)
    started_at: Time
    ended_at: Time | None
    duration_ms: int | None
    error_class: str | None
    error: str | None
    model: str | None
    tools: Json
    cost_usd: Money


class TaskError(BaseModel):
    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    message: str


class TaskSummary(BaseModel):
    id: str
    playbook: str
    playbook_version: str
    tenant: str
    key: str
    state: State
    waiting_for: Wait | None
    version: int = Field(ge=1)
    priority: Literal["P0", "P1", "P2", "P3"]
    created_at: Time
    updated_at: Time
    not_before: Time | None
    expires_at: Time | None
    wake_at: Time | None
    ended_at: Time | None
    cost_usd: Money
    result: Json
    error: TaskError | None


class Task(TaskSummary):
    steps: list[TaskStep]


class TaskPage(BaseModel):
    items: list[TaskSummary]
    next_cursor: str | None = Field(description="Pass it as `cursor` to go on; null at the end.")


class Fault(BaseModel):
    path: str
    message: str


class ProblemDocument(BaseModel):
    """RFC 9457. `type` is stable; the texts are for people and may change."""

    type: str = Field(pattern="^urn:nightdesk:problem:[a-z-]+$")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    next_step: str | None = None
    errors: list[Fault] | None = None
    differs: list[str] | None = Field(None, description="The paths at which two inputs differ.")
    right: str | None = Field(None, description="The right that is missing.")
    outcome: dict[str, Any] | None = Field(None, description="The decision that is in the way, as an Outcome.")


class Live(BaseModel):
    status: Literal["live"]


class Ready(BaseModel):
    status: Literal["ready"]
