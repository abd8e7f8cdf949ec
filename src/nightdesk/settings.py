"""One frozen object: defaults, then nightdesk.toml, then the environment. Every fault is named at once."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from nightdesk.errors import Invalid

# Variables that are not settings: where the house is, secrets, and what tests need.
_NOT_SETTINGS = {
    "NIGHTDESK_HOME", "NIGHTDESK_DRILL_LOG", "NIGHTDESK_FAILPOINT", "NIGHTDESK_CALLBACK_SECRET", "NIGHTDESK_TOKEN",
}  # fmt: skip


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone; one is Europe/Berlin") from None
    return name


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(_Section):
    url: str = Field(default="", description="Database address; empty means the file nightdesk.db in the house.")
    patience_seconds: int = Field(
        default=30, ge=1, le=300, description="Longest wait for a connection, a lock, a statement."
    )


class WorkerSettings(_Section):
    concurrency: int = Field(default=50, ge=1, le=1000, description="Legs that one worker process runs at once.")
    poll_seconds: float = Field(default=0.1, ge=0.01, le=10, description="How often a worker looks for work.")
    drain_seconds: float = Field(
        default=6.0, ge=0, le=8, description="On SIGTERM, how long legs may finish before parking."
    )
    lease_seconds: int = Field(default=15, ge=3, le=120, description="A worker silent for this long is taken for dead.")
    stall_seconds: int = Field(
        default=60, ge=10, le=600, description="Without progress for this long a worker ends itself."
    )
    dispatches: int = Field(
        default=5, ge=1, le=20, description="Starts without progress before a task is a dead letter."
    )


class ApiSettings(_Section):
    host: str = Field(default="127.0.0.1", description="Address that the web process listens on.")
    port: int = Field(default=8484, ge=0, le=65535, description="Port that the web process listens on.")
    max_body_bytes: int = Field(default=1_048_576, ge=1024, description="Largest request body.")
    max_depth: int = Field(default=64, ge=4, le=200, description="Deepest nesting of JSON in a request.")
    require_idempotency_key: bool = Field(
        default=True, description="Whether POST /v1/tasks needs an Idempotency-Key header."
    )
    idempotency_hours: int = Field(default=24, ge=1, description="How long an answer can be replayed.")


def _as_dollars(value: object) -> object:
    """Text or a number as text, so that 0.1 is a tenth exactly; empty text is no cap."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError('must be dollars, as in "5.00"')
    text = str(value).strip()
    try:
        amount = Decimal(text or "1")
    except InvalidOperation:
        raise ValueError('must be dollars, as in "5.00"') from None
    if not (amount.is_finite() and Decimal("0.000001") <= amount <= _MOST_DOLLARS):
        raise ValueError(
            f"must be more than 0 and at most {_MOST_DOLLARS:,} dollars; to stop all spending: nightdesk stop"
        )
    return text


_MOST_DOLLARS = 1_000_000
Dollars = Annotated[str, BeforeValidator(_as_dollars)]


class TenantBudget(_Section):
    day: Dollars = Field(default="", description="Dollars per day for this tenant; empty means no cap.")


class BudgetSettings(_Section):
    day: Dollars = Field(default="", description="Dollars per day for everything; empty means no cap.")
    night: Dollars = Field(default="", description="Dollars per night for everything; empty means no cap.")
    task: Dollars = Field(default="", description="Dollars per task, where its playbook states no cap.")
    playbook_day: Dollars = Field(default="", description="Dollars per day and playbook, where it states no cap.")
    tenant_day: Dollars = Field(default="", description="Dollars per day for each tenant that is not named.")
    tenant: dict[str, TenantBudget] = Field(
        default_factory=dict, description='Tenants by name, as in [budget.tenant.acme] with day = "2.00".'
    )


class BreakerSettings(_Section):
    errors: int = Field(default=5, ge=1, le=100, description="Errors running that open a breaker.")
    window_seconds: float = Field(default=120, gt=0, le=3600, description="Time within which these errors must be.")
    open_seconds: float = Field(
        default=600, gt=0, le=86_400, description="How long it stays open, and how long a trial call may take."
    )
    slow_seconds: float = Field(
        default=120, gt=0, le=3600, description="It opens too when one live answer in twenty takes longer than this."
    )


class RateSettings(_Section):
    """Limits of what is sent. None: no limit but what the provider is found to have."""

    requests_per_minute: float | None = Field(default=None, gt=0, le=1e9)
    input_tokens_per_minute: float | None = Field(default=None, gt=0, le=1e12)
    output_tokens_per_minute: float | None = Field(default=None, gt=0, le=1e12)
    queued_tokens: float | None = Field(default=None, gt=0, le=1e12)


_ROUTE = r"^(\*|tenant:[^\s*]+|[a-z0-9_.-]+:(\*|[^\s*]+)|\*:[^\s*]+)$"


class LimitSettings(_Section):
    """A key with a colon, and "*", is a route: its table is one of `routes`."""

    tenants: dict[str, int] = Field(default_factory=dict, description="Legs running at once, per tenant by name.")
    playbooks: dict[str, int] = Field(default_factory=dict, description="The same per playbook; overrides its own.")
    tenant: int = Field(default=0, ge=0, description="The limit for tenants that are not named; 0 means none.")
    routes: dict[Annotated[str, Field(pattern=_ROUTE)], RateSettings] = Field(
        default_factory=dict,
        description='Rates, stated as [limits."anthropic:*"] with requests_per_minute = 50; see docs/limits.md.',
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_routes(cls, stated: Any) -> Any:
        if not isinstance(stated, dict):
            return stated
        routes = {key: value for key, value in stated.items() if ":" in str(key) or key == "*"}
        rest = {key: value for key, value in stated.items() if key not in routes}
        listed = rest.get("routes", {})
        return {**rest, "routes": {**listed, **routes} if isinstance(listed, dict) else listed} if routes else rest


class DiskSettings(_Section):
    warn_percent: float = Field(default=15, ge=0, le=100, description="Free space under which doctor and the log warn.")
    stop_percent: float = Field(
        default=10, ge=0, le=100, description="Free space under which intake may stop; see stop_mb."
    )
    stop_mb: int = Field(
        default=500, ge=0, description="Intake stops when free space is under both stop_percent and this."
    )


class CallbackSettings(_Section):
    timeout_seconds: float = Field(default=10, gt=0, le=60, description="Longest wait for a callback's receiver.")
    longest_pause_seconds: int = Field(default=3600, ge=1, description="Longest pause between two tries of a callback.")


class NotifySettings(_Section):
    """Where people are told. Each place is an Apprise URL, `env:NAME` for one in the environment, or a file."""

    urls: tuple[str, ...] = Field(
        default=(), description="Where messages go: Apprise URLs; env:NAME takes one from the environment."
    )
    summary: tuple[str, ...] = Field(
        default=(), description="Where the morning summary goes instead; with no place at all, to summary.txt."
    )
    alert: tuple[str, ...] = Field(default=(), description="Where alerts go instead; never to a file.")


class AuditSettings(_Section):
    seal_seconds: float = Field(default=1.0, gt=0, le=60, description="How often new events are chained.")
    head_file: str = Field(default="audit.head", description="Where the chain's head is kept, relative to the house.")


class LogSettings(_Section):
    level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Lowest level that is written."
    )


class ModelSettings(_Section):
    output_tokens: int = Field(
        default=8192, ge=1, description="Limit of output tokens for a request that states none itself."
    )
    turns: int = Field(default=50, ge=1, description="Calls to models that one version of a task may make.")
    timeout_seconds: float = Field(default=600, ge=1, le=3600, description="Longest wait for a live answer.")
    flex_minutes: float = Field(default=15, gt=0, description="How long a flex answer is given.")
    batch_minutes: float = Field(
        default=60, gt=0, description="How long a batch is expected to take until it was seen for itself."
    )
    cache_hits: float = Field(
        default=0.6, ge=0, le=1, description="Share of a marked prefix that a batch is expected to find in the cache."
    )


class WaveSettings(_Section):
    settle_seconds: float = Field(
        default=5, ge=0, le=600, description="A wave leaves when nothing has joined it for this long."
    )
    longest_wait_seconds: float = Field(
        default=300, ge=0, le=86_400, description="A wave leaves at the latest after this wait."
    )
    poll_seconds: float = Field(default=30, gt=0, le=3600, description="How often an open batch is asked after.")
    canary: bool = Field(default=True, description="Whether the first request of a new shape goes ahead of its wave.")
    most_items: int = Field(default=50_000, ge=1, description="Largest wave, where the provider would take more.")


_Wall = Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


_Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_Minutes = Annotated[float, Field(ge=0, le=1440)]


class NightSettings(_Section):
    """A night is cut off on its evening, opens, stops, and is told of in the morning."""

    zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="Time zone of the house: when a day and a night begin."
    )
    cutoff: _Wall = Field(default="17:00", description="When the night's plan is made; later work is for the next.")
    start: _Wall = Field(default="01:00", description="When a night's window opens.")
    stop: _Wall = Field(default="05:00", description="The hard stop: nothing is under way after it.")
    summary: _Wall = Field(default="07:30", description="When the morning summary goes out.")
    days: tuple[_Day, ...] = Field(
        default=get_args(_Day), description="Evenings on which a night begins: mon, tue, wed, thu, fri, sat, sun."
    )
    holidays: tuple[date, ...] = Field(
        default=(), description="Evenings without a night, as dates: [2026-12-24, 2026-12-31]."
    )
    reviewer_minutes: _Minutes | dict[str, _Minutes] = Field(
        default=75.0, description="Minutes of review in a morning; with several reviewers a table of them by name."
    )
    last_call_minutes: float = Field(
        default=20, ge=0, description="How long before the hard stop batches are called back at the latest."
    )


class ReviewSettings(_Section):
    seeded_percent: float = Field(
        default=0,
        ge=0,
        le=20,
        description="Share of known-bad drafts among those on the desk, to see if they are caught.",
    )
    batch_bad_percent: float = Field(
        default=10, ge=1, le=50, description="A sample must show that fewer of a lot than this are bad."
    )
    cool_down_minutes: float = Field(
        default=15,
        ge=1,
        le=1440,
        description="Where one person decides alone: time between two looks at what is final.",
    )


class Settings(_Section):
    """All sections. The docs list each setting with its unit and default; a test says so."""

    database: DatabaseSettings = DatabaseSettings()
    worker: WorkerSettings = WorkerSettings()
    api: ApiSettings = ApiSettings()
    limits: LimitSettings = LimitSettings()
    budget: BudgetSettings = BudgetSettings()
    breakers: BreakerSettings = BreakerSettings()
    disk: DiskSettings = DiskSettings()
    callbacks: CallbackSettings = CallbackSettings()
    notify: NotifySettings = NotifySettings()
    audit: AuditSettings = AuditSettings()
    model: ModelSettings = ModelSettings()
    waves: WaveSettings = WaveSettings()
    night: NightSettings = NightSettings()
    review: ReviewSettings = ReviewSettings()
    log: LogSettings = LogSettings()


def load_settings(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    file = home / "nightdesk.toml"
    stated = _read_toml(file)
    faults: list[tuple[str, str]] = []
    for section, key, value in _from_environment(environ, faults):
        stated.setdefault(section, {})[key] = value
    try:
        settings = Settings.model_validate(stated)
    except ValidationError as error:
        faults += [_fault(problem) for problem in error.errors()]
    if faults:
        raise Invalid("The settings are not valid", faults, f"Mend {file.name} or the environment.")
    return settings


def database_url(settings: Settings, home: Path) -> str:
    return settings.database.url or f"sqlite:///{(home / 'nightdesk.db').absolute()}"


def nearest(word: str, known: list[str]) -> str:
    """`did you mean "…"?`, or nothing when no known word is near."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f'; did you mean "{found[0]}"?' if found else f"; known are {', '.join(sorted(known))}"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file.name} cannot be read", [("", str(error))], "Mend the file at that place.") from None


def _from_environment(environ: Mapping[str, str], faults: list[tuple[str, str]]) -> list[tuple[str, str, Any]]:
    """NIGHTDESK_WORKER_CONCURRENCY=10 sets concurrency in [worker]."""
    names = _environment_names()
    found = []
    for variable in sorted(name for name in environ if name.startswith("NIGHTDESK_")):
        if variable in names:
            found.append((*names[variable], environ[variable]))
        elif variable not in _NOT_SETTINGS:
            faults.append((variable, "is not a known variable" + nearest(variable, [*names, *_NOT_SETTINGS])))
    return found


def _environment_names() -> dict[str, tuple[str, str]]:
    return {
        f"NIGHTDESK_{section}_{key}".upper(): (section, key)
        for section, field in Settings.model_fields.items()
        for key, inner in field.annotation.model_fields.items()  # type: ignore[union-attr]
        if inner.annotation in (str, int, float, bool)
    }


def _fault(problem: Any) -> tuple[str, str]:
    place = [part for part in problem["loc"] if part != "[key]"]
    if place[:2] == ["limits", "routes"] and len(place) > 2:
        del place[1]  # where it was gathered, not where it was written
    path = ".".join(str(part) for part in place)
    if problem["type"] == "string_pattern_mismatch" and place[0] == "limits":
        return path, 'is no route; routes are "provider:model", "provider:*", "*:model", "tenant:name" and "*"'
    if problem["type"] == "value_error":
        return path, problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "extra_forbidden":
        return path, problem["msg"]
    model = _model_at(problem["loc"][:-1])
    return path, "is not a known setting" + nearest(str(place[-1]), list(model.model_fields))


def _model_at(location: tuple[str, ...]) -> type[BaseModel]:
    """The model that lies there, below sections and tables of names."""
    found: Any = Settings
    for part in location:
        is_model = isinstance(found, type) and issubclass(found, BaseModel)
        found = found.model_fields[part].annotation if is_model else get_args(found)[1]
    model: type[BaseModel] = found
    return model
