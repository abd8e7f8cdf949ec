"""The Playbook itself: what is known of one kind of work, and the checks on what goes in and comes out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from nightdesk.canonical import Json, canonical, digest, jsonable
from nightdesk.errors import Invalid
from nightdesk.playbook.faults import Fault, dotted, found_by_pydantic, plain
from nightdesk.playbook.keys import fill, names

Run = Callable[[Any, Any], Awaitable[Any]]  # (input model, desk) -> output
Risk = Literal["internal", "reversible", "customer", "irreversible"]
OnCodeChange = Literal["keep", "person"]
Lane = Literal["auto", "batch", "flex", "live"]


@dataclass(frozen=True)
class When:
    """When tasks run. `input` is what each tick of a cron submits; `seconds` is how long a debounced task must be left
    alone, or how long tasks gather at most until there are `depth` of them."""

    kind: Literal["now", "night", "cron", "after", "debounce", "depth", "event"] = "night"
    cron: str = ""
    zone: str = "UTC"
    after: str = ""
    seconds: float = 0
    depth: int = 0
    event: str = ""
    input: dict[str, Json] = field(default_factory=dict)

    @property
    def is_nightly(self) -> bool:
        return self.kind in ("night", "after")

    @property
    def is_gathered(self) -> bool:
        """Whether tasks lie in the queue until somebody takes them from there."""
        return self.is_nightly or self.kind == "depth"


@dataclass(frozen=True)
class Limits:
    """Wall-clock time of one task, tasks running at once (0: any number), and retries after a failure.

    `redrafts` is how often a draft that failed its gates goes back to the model with what was found.
    """

    time_seconds: float = 3600
    concurrency: int = 0
    retries: int = 3
    redrafts: int = 0


@dataclass(frozen=True)
class Bar:
    """What launch takes: this share of the cases passed, and at least so many cases."""

    rate: float = 0.75
    cases: int = 50


@dataclass(frozen=True)
class Gate:
    """One check of every draft, with its settings; `run` is the user's function where the gate is one of his own."""

    name: str
    settings: BaseModel
    run: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Asking:
    """How models are asked: which (as `provider:name`), in which lane, and what bounds it. Caps are in US dollars.

    `turns` and `tokens` bound the calls of one task and the output of one call; None leaves it to the settings.
    """

    use: str | None = None
    cheaper: str | None = None
    fallback: str | None = None
    lane: Lane = "auto"
    cache: bool = False
    task_cap: Decimal | None = None
    day_cap: Decimal | None = None
    call_ceiling: Decimal | None = None
    turns: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, eq=False)
class Playbook:
    """One kind of work. `definition` is what was stated, for the rooms that read more of it than this one.

    `window` has the settings of the night that are different for this playbook, as it states them.
    """

    name: str
    title: str
    input: type[BaseModel]
    output: type[BaseModel] | None
    key: str | None
    when: When
    window: dict[str, str]
    priority: int
    sla_seconds: float | None
    ttl_seconds: float | None
    limits: Limits
    asking: Asking
    risk: Risk
    gates: tuple[Gate, ...]
    bar: Bar
    then: tuple[str, ...]
    on_code_change: OnCodeChange
    run: Run | None
    version: str
    source: Path | None
    definition: dict[str, Json]

    def check_input(self, raw: Json) -> Json:
        """The input as plain JSON with its defaults filled in, or Invalid with every fault."""
        return self._checked(self.input, raw, "input", "Correct the input and submit it again.")

    def load_input(self, values: Json) -> BaseModel:
        """The input as the model that the playbook's code receives."""
        try:
            return self.input.model_validate_json(canonical(values))
        except ValidationError as error:
            raise self._invalid("input", found_by_pydantic(error, self.input, "field")) from None

    def load_output(self, values: Json) -> Any:
        """The output as the model that the user's gates receive; plain JSON where the playbook states none."""
        return values if self.output is None else self.output.model_validate_json(canonical(values))

    def key_for(self, values: Json) -> str:
        """What makes two submissions the same: the key template filled in, else a digest of the whole input."""
        return fill(self.key, values) if self.key else digest(canonical(values))

    def mixed_up(self, given: Json, output: Json) -> str:
        """What is wrong with an output that names another item than the input: a field of the key has another value."""
        if not (isinstance(output, dict) and self.key):
            return ""
        wrong = [name for name in names(self.key) if name in output and output[name] != given.get(name)]
        return "; ".join(f"{name} must be {canonical(given.get(name))}, as in the input" for name in wrong)

    def check_output(self, value: object) -> Json:
        """What the code returned as plain JSON, or Invalid with every fault."""
        try:
            raw = jsonable(value)
        except (PydanticSerializationError, RecursionError, ValueError) as error:
            raise self._invalid("output", [((), str(error))]) from None
        if self.output is not None:
            return self._checked(self.output, raw, "output")
        faults: list[Fault] = []
        output = plain(raw, faults)
        if faults:
            raise self._invalid("output", faults)
        return output

    def _checked(self, model: type[BaseModel], raw: Json, what: str, next_step: str = "") -> Json:
        faults: list[Fault] = []
        text = canonical(jsonable(plain(raw, faults)))
        named = {path for path, _ in faults}
        try:
            checked = jsonable(model.model_validate_json(text))
        except ValidationError as error:
            checked = None
            faults += [fault for fault in found_by_pydantic(error, model, "field") if fault[0] not in named]
        if faults:
            raise self._invalid(what, faults, next_step)
        return checked

    def _invalid(self, what: str, faults: list[Fault], next_step: str = "") -> Invalid:
        listed = [(dotted(path), text) for path, text in faults]
        return Invalid(f"The {what} of {self.name} is not valid", listed, next_step)
