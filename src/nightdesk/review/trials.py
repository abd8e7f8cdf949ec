"""Launch tests: a playbook's golden cases, done as real tasks are, held against what they expect, and kept on record.

They run in a house of their own, which is gone afterwards, so that neither the desk nor a list of tasks nor any figure
of the real house shows them, and no budget of a playbook, a tenant or a night is used up before the night. What they
cost is paid all the same: it is reserved in the real house's budget of the day before the first case, and spent there.
A test that is killed leaves what it had reserved reserved until the day is over.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from pydantic_evals import Case as EvalCase, Dataset
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReport, ReportCase

from nightdesk.canonical import Json
from nightdesk.errors import NightdeskError, NotFound
from nightdesk.guard import budgets
from nightdesk.guard.egress import Egress
from nightdesk.guard.purses import purse_of, to_micros
from nightdesk.house import House
from nightdesk.model.agents import key_for
from nightdesk.playbook import Bar, Playbook
from nightdesk.playbook.golden import Case, Expect, State, read_golden
from nightdesk.review.expectations import Ended, judged
from nightdesk.review.staging import Stage, staged
from nightdesk.store import trials

_AT_ONCE = 10
Tell = Callable[[int], None]


@dataclass(frozen=True)
class Result:
    """One case: what was not met, and what it took."""

    name: str
    passed: bool
    reasons: Sequence[str]
    state: str
    cost_usd: Decimal
    seconds: float


@dataclass(frozen=True)
class Trial:
    playbook: str
    version: str
    results: Sequence[Result]
    bar: Bar
    seconds: float

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def rate(self) -> float:
        return self.passed / len(self.results)

    @property
    def cost_usd(self) -> Decimal:
        return sum((result.cost_usd for result in self.results), Decimal(0))

    @property
    def is_over_the_bar(self) -> bool:
        return self.rate >= self.bar.rate and len(self.results) >= self.bar.cases


def try_out(house: House, name: str, *, cap: Decimal, tell: Tell, egress: Egress | None = None) -> Trial:
    """Run every golden case of the playbook, and keep how it went. All of it costs `cap` at most; `tell` hears how many
    cases are done."""
    playbook = house.registry.get(name)
    cases = read_golden(playbook)
    if not cases:
        raise NotFound(f"Playbook {name} has no golden cases.", "State a file of them in it: golden: golden.jsonl")
    if playbook.asking.use is not None:
        key_for(playbook.asking.use.partition(":")[0])
    with _paid(house, cap) as spent, staged(house, cap) as stage:
        began = house.clock.now()
        results = asyncio.run(_run(stage, playbook, cases, tell, egress))
        trial = Trial(name, playbook.version, results, playbook.bar, (house.clock.now() - began).total_seconds())
        spent.append(trial.cost_usd)
    _keep(house, trial)
    return trial


@contextmanager
def _paid(house: House, cap: Decimal) -> Iterator[list[Decimal]]:
    """Reserve the cap in the budget of the day; what is put in the list is spent, and the rest given back."""
    now = house.clock.now()
    purse = purse_of(house.settings, now, "day")
    with house.db.write() as conn:
        refusal = budgets.reserve(house.db, conn, now, [purse], to_micros(cap))
    if refusal is not None:
        raise NightdeskError(refusal.sentence, "Give the test less with --cap, or: nightdesk budget raise")
    spent: list[Decimal] = []
    try:
        yield spent
    finally:
        with house.db.write() as conn:
            cost = to_micros(sum(spent, Decimal(0))) if spent else to_micros(cap)
            budgets.settle(house.db, conn, house.clock.now(), [list(purse.key)], to_micros(cap), cost)


async def _run(
    stage: House, playbook: Playbook, cases: Sequence[Case], tell: Tell, egress: Egress | None
) -> list[Result]:
    runner, done = Stage(stage, egress), 0

    async def run(named: tuple[str, Json]) -> Ended:
        nonlocal done
        ended = await runner.run(playbook.name, named[1], named[0])
        done += 1
        tell(done)
        return ended

    usual: State = "done" if playbook.risk == "internal" else "review"
    dataset = Dataset[tuple[str, Json], Ended, Expect](
        name=playbook.name,
        cases=[
            EvalCase(name=case.name, inputs=(f"case-{number}", case.input), metadata=case.expect)
            for number, case in enumerate(cases, 1)
        ],
        evaluators=[_AsExpected(usual)],
    )
    try:
        report = await dataset.evaluate(run, max_concurrency=_AT_ONCE, progress=False)
    finally:
        await runner.close()
    return _in_order(report, [case.name for case in cases])


@dataclass(repr=False)
class _AsExpected(Evaluator[Any, Ended, Expect]):
    usual: State

    def evaluate(self, ctx: EvaluatorContext[Any, Ended, Expect]) -> Mapping[str, EvaluationReason]:
        assert ctx.metadata is not None
        found = judged(ctx.metadata, ctx.output, self.usual)
        return {name: EvaluationReason(value=not reason, reason=reason or None) for name, reason in found}


def _in_order(report: EvaluationReport[Any, Ended, Any], names: list[str]) -> list[Result]:
    found = {case.name: _result(case) for case in report.cases}
    for failure in report.failures:
        found[failure.name] = Result(failure.name, False, [failure.error_message], "none", Decimal(0), 0.0)
    return [found[name] for name in names]


def _result(case: ReportCase[Any, Ended, Any]) -> Result:
    unmet = [f"{name}: {found.reason}" for name, found in case.assertions.items() if not found.value]
    unmet += [f"{failure.name}: {failure.error_message}" for failure in case.evaluator_failures]
    ended = case.output
    return Result(case.name, not unmet, unmet, ended.state, ended.cost_usd, round(ended.seconds, 2))


def _keep(house: House, trial: Trial) -> None:
    row = {
        "id": f"trial_{uuid.uuid4().hex}",
        "playbook": trial.playbook,
        "playbook_version": trial.version,
        "at": house.clock.now(),
        "cases": len(trial.results),
        "passed": trial.passed,
        "cost_usd": trial.cost_usd,
        "duration_ms": round(trial.seconds * 1000),
        "report": [asdict(result) | {"cost_usd": str(result.cost_usd)} for result in trial.results],
    }
    with house.db.write() as conn:
        conn.execute(trials.insert(), row)
