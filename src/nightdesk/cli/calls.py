"""`nightdesk calls`: what was asked of models, in which lane and why, and what it cost."""

from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, show_json, show_table
from nightdesk.errors import Invalid

_COLUMNS = ("task_id", "playbook", "model", "lane", "status", "input_tokens", "output_tokens", "cost_usd",
            "saved_usd", "lane_reason", "error")  # fmt: skip


def calls(
    task: Annotated[str | None, typer.Option(help="Only calls of the task with this id.")] = None,
    playbook: Annotated[str | None, typer.Option(help="Only calls of this playbook's tasks.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only calls of this tenant's tasks.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only calls to this provider.")] = None,
    lane: Annotated[str | None, typer.Option(help="Only calls in this lane: batch, flex or live.")] = None,
    status: Annotated[str | None, typer.Option(help="Only calls with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 50,
    json: JsonOption = False,
) -> None:
    """Calls to models, the newest first."""
    from nightdesk.model.insight import list_calls
    from nightdesk.store.asking import CALL_STATUSES, LANES

    known = {"lane": (lane, LANES), "status": (status, CALL_STATUSES)}
    faults = [
        (name, f"known are {', '.join(there)}")
        for name, (stated, there) in known.items()
        if stated not in (None, *there)
    ]
    if faults:
        raise Invalid("There are no such calls", faults)
    with opened(asks=True) as house:
        found = list_calls(
            house, task=task, playbook=playbook, tenant=tenant, provider=provider, lane=lane, status=status, limit=limit
        )
    if json:
        show_json({"items": found})
        return
    show_table(_COLUMNS, found, "No model was asked.")
