"""`nightdesk calls`: what was asked of models, in which lane and why, and what it cost."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, note, show_json, show_table
from nightdesk.errors import Invalid

if TYPE_CHECKING:
    from nightdesk.house import House

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
    from nightdesk.model.providers import PROVIDERS
    from nightdesk.store.asking import CALL_STATUSES, LANES

    _require_known({"provider": (provider, PROVIDERS), "lane": (lane, LANES), "status": (status, CALL_STATUSES)})
    with opened(asks=True) as house:
        found = list_calls(
            house, task=task, playbook=playbook, tenant=tenant, provider=provider, lane=lane, status=status, limit=limit
        )
        if not found:
            _require_there(house, task, playbook, tenant)
    if json:
        show_json({"items": found})
        return
    show_table(_COLUMNS, found, "No model was asked.")
    if len(found) == limit:
        note(f"These are the newest {limit}; there may be more: --limit")


def _require_known(stated: dict[str, tuple[str | None, Collection[str]]]) -> None:
    from nightdesk.settings import nearest

    faults = [
        (name, f'"{value}" is none{nearest(value, list(known))}')
        for name, (value, known) in stated.items()
        if value is not None and value not in known
    ]
    if faults:
        raise Invalid("There are no such calls", faults)


def _require_there(house: "House", task: str | None, playbook: str | None, tenant: str | None) -> None:
    """Nothing was found: it may be for a name that is misspelt."""
    from nightdesk.guard.caps import require_tenant
    from nightdesk.work.insight import find_task

    if task is not None:
        find_task(house, task)
    if playbook is not None:
        house.registry.get(playbook)
    if tenant is not None:
        require_tenant(house.db, house.settings, tenant)
