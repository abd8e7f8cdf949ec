"""What may be stated about a playbook: every key of its YAML, every argument of @playbook."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from nightdesk.canonical import Json
from nightdesk.playbook.definition import Bar, Lane, Limits, OnCodeChange, Risk

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RUN = re.compile(r"[A-Za-z0-9_]+\.py:[A-Za-z_][A-Za-z0-9_]*")
_WALL = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_LONGEST_SECONDS = 10 * 366 * 86400


def _name(value: object) -> object:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("must be small letters, digits and hyphens, begin with a letter, and have at most 64 of them")
    return value


def _seconds(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    stated = _DURATION.fullmatch(value) if isinstance(value, str) and len(value) < 20 else None
    if stated is None:
        raise ValueError("must be a duration such as 90s, 15m, 2h or 3d, or a number of seconds")
    return float(stated[1]) * _UNITS[stated[2]]


def _priority(value: object) -> object:
    if isinstance(value, str) and re.fullmatch("P[0-3]", value):
        return int(value[1])
    if isinstance(value, bool) or value not in (0, 1, 2, 3):
        raise ValueError("must be P0, P1, P2 or P3")
    return value


def _file(value: object) -> object:
    if isinstance(value, str) and (PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts):
        raise ValueError("must be a file in the playbook's own folder")
    return value


def _run(value: object) -> object:
    if isinstance(value, str) and not _RUN.fullmatch(value):
        raise ValueError("must be file and function, as in run.py:work, and the file must lie beside the YAML")
    return value


def _zone(value: object) -> object:
    if isinstance(value, str):
        try:
            ZoneInfo(value)
        except (ValueError, OSError, KeyError):
            raise ValueError("must be a time zone such as Europe/Berlin or UTC") from None
    return value


def _wall(value: object) -> object:
    if not (isinstance(value, str) and _WALL.fullmatch(value)):
        raise ValueError("must be a time of day such as 17:00")
    return value


def _use(value: object) -> object:
    return {"use": value} if isinstance(value, str) else value


def _named(value: object) -> object:
    """A gate or tool without settings may be written as its name alone."""
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, dict) and len(value) != 1:
        raise ValueError("must be a name, or one name with its settings, as in `length: {max: 200}`")
    return value


Name = Annotated[str, BeforeValidator(_name)]
Text = Annotated[str, StringConstraints(min_length=1)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=_LONGEST_SECONDS)]
Zone = Annotated[str, StringConstraints(min_length=1), BeforeValidator(_zone)]
Wall = Annotated[str, BeforeValidator(_wall)]
Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ModelPart(Part):
    use: Text
    cheaper: Text | None = None
    fallback: Text | None = None


class BudgetPart(Part):
    """Caps per task and per day; `call` is what one call may cost of a model that has no known price."""

    task: Dollars | None = None
    day: Dollars | None = None
    call: Dollars | None = None


class ReviewPart(Part):
    """How people decide about it. `impact` and `rollback` are told as they stand; `decide_by` is a time of the day, and
    `overdue` what becomes of a draft that nobody has decided on by then."""

    minutes: float | None = Field(None, ge=0, le=1440)
    checklist: list[Text] = []
    reasons: list[Text] = []
    impact: Text | None = None
    rollback: Text | None = None
    decide_by: Wall | None = None
    overdue: Literal["hold", "rework", "drop"] | None = None


class ReleasePart(Part):
    """Where approved work goes; each connector has settings of its own beside `to`."""

    model_config = ConfigDict(extra="allow")

    to: Text


class LimitsPart(Part):
    time: Seconds = Limits.time_seconds
    concurrency: int = Field(default=Limits.concurrency, ge=0, le=10_000)
    retries: int = Field(default=Limits.retries, ge=0, le=100)
    turns: int | None = Field(default=None, ge=1, le=10_000)
    tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    redrafts: int = Field(default=Limits.redrafts, ge=0, le=3)


class BarPart(Part):
    rate: float = Field(default=Bar.rate, gt=0, le=1)
    cases: int = Field(default=Bar.cases, ge=1, le=10_000)


class WindowPart(Part):
    """What is different in the nights of this playbook; the rest is as the house has it."""

    zone: Zone | None = None
    cutoff: Wall | None = None
    start: Wall | None = None
    stop: Wall | None = None
    summary: Wall | None = None


class Statement(Part):
    name: Name
    title: Text | None = None
    when: Any = "night"
    window: WindowPart | None = None
    input: Any = None
    output: Any = None
    key: Text | None = None
    model: Annotated[ModelPart | None, BeforeValidator(_use)] = None
    priority: Annotated[int, BeforeValidator(_priority)] = 2
    budget: BudgetPart | None = None
    risk: Risk = "customer"
    instructions: Text | None = None
    gates: list[Annotated[dict[Text, Json], BeforeValidator(_named)]] = []
    review: ReviewPart | None = None
    release: ReleasePart | None = None
    golden: Annotated[Text | None, BeforeValidator(_file)] = None
    bar: BarPart = BarPart()
    lane: Lane = "auto"
    cache: bool = False
    then: list[Name] = []
    tools: list[Annotated[dict[Text, Json], BeforeValidator(_named)]] = []
    sla: Seconds | None = None
    ttl: Seconds | None = None
    limits: LimitsPart = LimitsPart()
    on_code_change: OnCodeChange = "keep"
    run: Annotated[Text | None, BeforeValidator(_run)] = None
