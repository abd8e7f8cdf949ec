"""One frozen object: defaults, then nightdesk.toml, then the environment. Every fault is named at once."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightdesk.errors import Invalid

# Variables that are not settings: where the house is, secrets, and the drill's log.
_NOT_SETTINGS = {"NIGHTDESK_HOME", "NIGHTDESK_DRILL_LOG", "NIGHTDESK_CALLBACK_SECRET", "NIGHTDESK_TOKEN"}


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


class LimitSettings(_Section):
    tenants: dict[str, int] = Field(default_factory=dict, description="Legs running at once, per tenant by name.")
    playbooks: dict[str, int] = Field(default_factory=dict, description="The same per playbook; overrides its own.")
    tenant: int = Field(default=0, ge=0, description="The limit for tenants that are not named; 0 means none.")


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


class AuditSettings(_Section):
    seal_seconds: float = Field(default=1.0, gt=0, le=60, description="How often new events are chained.")
    head_file: str = Field(default="audit.head", description="Where the chain's head is kept, relative to the house.")


class LogSettings(_Section):
    level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Lowest level that is written."
    )


class Settings(_Section):
    """All sections. The docs list each setting with its unit and default; a test says so."""

    database: DatabaseSettings = DatabaseSettings()
    worker: WorkerSettings = WorkerSettings()
    api: ApiSettings = ApiSettings()
    limits: LimitSettings = LimitSettings()
    disk: DiskSettings = DiskSettings()
    callbacks: CallbackSettings = CallbackSettings()
    audit: AuditSettings = AuditSettings()
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
    path = ".".join(str(part) for part in problem["loc"])
    if problem["type"] != "extra_forbidden":
        return path, problem["msg"]
    section, *rest = problem["loc"]
    model = Settings if not rest else Settings.model_fields[section].annotation
    known = list(model.model_fields)  # type: ignore[union-attr]
    return path, "is not a known setting" + nearest(str(problem["loc"][-1]), known)
