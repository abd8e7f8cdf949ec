"""From what was stated, in YAML or Python, to a Playbook; or to one refusal that names every fault and its place."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from nightdesk.canonical import Json, canonical, digest
from nightdesk.errors import Invalid
from nightdesk.playbook.definition import Asking, Bar, Limits, Playbook, Run, When
from nightdesk.playbook.faults import Fault, Path, dotted, found_by_pydantic, plain
from nightdesk.playbook.gate_reading import Around, Check, read_gates
from nightdesk.playbook.keys import check_template
from nightdesk.playbook.notation import read_model
from nightdesk.playbook.statement import BudgetPart, Statement
from nightdesk.playbook.timing import read_when

Place = Callable[[Path], str]  # file and line of a key


def build(
    stated: Mapping[str, Any], place: Place, *, run: Run | None, code: str, source: FilePath | None,
    found: Sequence[Fault] = (), checks: Mapping[int, Check] | None = None,
) -> Playbook:  # fmt: skip
    """`code` is the text that `run` and `checks` come from, for the version; `found` are faults already known."""
    faults = list(found)
    definition: dict[str, Json] = plain(_with_schemas(stated, faults), faults)
    statement = _statement(definition, faults)
    input_model = _class(stated, "input") or read_model(definition.get("input", {}), faults, ("input",))
    output = _class(stated, "output")
    if output is None and definition.get("output") is not None:
        output = read_model(definition["output"], faults, ("output",))
    when = read_when(definition.get("when", "night"), faults)
    _check_together(definition.get("key"), input_model, when, faults)
    around = Around(input_model, output, has_model=definition.get("model") is not None)
    gates = read_gates(definition.get("gates"), checks or {}, around, faults)
    if statement and statement.limits.redrafts and run is not None:
        faults.append((("limits", "redrafts"), "is for playbooks without code; this one has code to run"))
    if definition.get("window") is not None and not when.is_nightly:
        faults.append((("window",), "is for work of the night; with this `when` there is none"))
    if faults or statement is None:
        raise refusal(faults, place)
    return Playbook(
        name=statement.name,
        title=statement.title or statement.name.replace("-", " ").capitalize(),
        input=input_model,
        output=output,
        key=statement.key,
        when=when,
        window=statement.window.model_dump(exclude_none=True) if statement.window else {},
        priority=statement.priority,
        sla_seconds=statement.sla,
        ttl_seconds=statement.ttl,
        limits=_limits(statement),
        asking=_asking(statement),
        risk=statement.risk,
        gates=gates,
        bar=Bar(statement.bar.rate, statement.bar.cases),
        then=tuple(dict.fromkeys(statement.then)),
        on_code_change=statement.on_code_change,
        run=run,
        version=digest(canonical(definition), code)[:12],
        source=source,
        definition=definition,
    )


def refusal(faults: Sequence[Fault], place: Place) -> Invalid:
    listed = [(place(path), f"`{dotted(path)}` {text}" if path else text) for path, text in dict.fromkeys(faults)]
    return Invalid("The playbook is not valid", listed, "Correct it at that place.")


def _statement(definition: dict[str, Json], faults: list[Fault]) -> Statement | None:
    try:
        return Statement.model_validate(definition)
    except ValidationError as error:
        faults += found_by_pydantic(error, Statement, "key")
        return None


def _limits(statement: Statement) -> Limits:
    stated = statement.limits
    return Limits(stated.time, stated.concurrency, stated.retries, stated.redrafts)


def _asking(statement: Statement) -> Asking:
    model, budget = statement.model, statement.budget or BudgetPart()
    return Asking(
        use=model.use if model else None,
        cheaper=model.cheaper if model else None,
        fallback=model.fallback if model else None,
        lane=statement.lane,
        cache=statement.cache,
        task_cap=_dollars(budget.task),
        day_cap=_dollars(budget.day),
        call_ceiling=_dollars(budget.call),
        turns=statement.limits.turns,
        tokens=statement.limits.tokens,
    )


def _dollars(stated: float | None) -> Decimal | None:
    return None if stated is None else Decimal(str(stated))


def _class(stated: Mapping[str, Any], key: str) -> type[BaseModel] | None:
    model = stated.get(key)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _with_schemas(stated: Mapping[str, Any], faults: list[Fault]) -> dict[str, Json]:
    """What was stated, with model classes written out as their JSON schemas."""
    written = dict(stated)
    for key in ("input", "output"):
        model = _class(stated, key)
        if model is not None:
            try:
                written[key] = model.model_json_schema()
            except PydanticInvalidForJsonSchema:
                faults.append(((key,), "has a field that JSON cannot carry"))
                written[key] = None
    return written


def _check_together(key: Json, input_model: type[BaseModel], when: When, faults: list[Fault]) -> None:
    """What depends on the input's fields; checked only where those are sound."""
    if any(path[:1] == ("input",) for path, _ in faults):
        return
    if isinstance(key, str) and key:
        check_template(key, input_model, faults)
    if when.kind == "cron":
        try:
            input_model.model_validate_json(canonical(when.input))
        except ValidationError as error:
            faults += found_by_pydantic(error, input_model, "field", ("when", "input"))
