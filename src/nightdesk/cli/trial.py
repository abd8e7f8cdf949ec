"""`nightdesk test`: whether a playbook does its golden cases, before a night is trusted to it."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, note, progress, say, show_json, show_table

if TYPE_CHECKING:
    from nightdesk.review.trials import Trial


def trial(
    playbook: Annotated[str, typer.Argument(help="Its name.")],
    cap: Annotated[float, typer.Option(min=0.01, max=10_000, help="Dollars that all of it may cost.")] = 5.0,
    json: JsonOption = False,
) -> None:
    """Do a playbook's golden cases in a house of their own, live, and keep how it went."""
    with opened(asks=True) as house:
        from nightdesk.guard.masking import mask_json
        from nightdesk.playbook.golden import read_golden
        from nightdesk.review.trials import try_out
        from nightdesk.watch.logs import configure

        configure("ERROR", mask_json)
        total = len(read_golden(house.registry.get(playbook)))
        with progress("golden cases", total) as advance:
            tried = try_out(house, playbook, cap=Decimal(str(cap)), tell=advance)
    show_json(_as_json(tried)) if json else _show(tried)
    if not tried.is_over_the_bar:
        note(_lacking(tried))
        raise typer.Exit(1)


def _as_json(trial: "Trial") -> dict[str, object]:
    return {
        "playbook": trial.playbook,
        "version": trial.version,
        "cases": len(trial.results),
        "passed": trial.passed,
        "rate": round(trial.rate, 4),
        "bar": {"rate": trial.bar.rate, "cases": trial.bar.cases},
        "over_the_bar": trial.is_over_the_bar,
        "cost_usd": trial.cost_usd,
        "seconds": round(trial.seconds, 1),
        "results": [vars(result) for result in trial.results],
    }


def _show(trial: "Trial") -> None:
    failed = [
        {"case": result.name, "state": result.state, "why": "\n".join(result.reasons)}
        for result in trial.results
        if not result.passed
    ]
    if failed:
        show_table(("case", "state", "why"), failed, "")
    say(
        f"{trial.playbook} {trial.version}: {trial.passed} of {len(trial.results)} cases passed ({trial.rate:.0%}), "
        f"for ${trial.cost_usd:.4f} in {trial.seconds:.1f} s."
    )


def _lacking(trial: "Trial") -> str:
    """What is between the playbook and a night."""
    missing = trial.bar.cases - len(trial.results)
    if trial.rate < trial.bar.rate:
        return f"That is under its bar of {trial.bar.rate:.0%}. Mend the playbook and test it again."
    return f"Its bar asks for {trial.bar.cases} cases. Add {missing} golden cases, or state `bar: {{cases: ...}}`."
