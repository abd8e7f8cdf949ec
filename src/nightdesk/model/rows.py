"""A call's row as it is first written, or written anew when it is asked again."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from nightdesk.canonical import canonical, digest
from nightdesk.model.asks import Ask
from nightdesk.model.router import Route
from nightdesk.model.wish import Asked, Wish


def new_row(asked: Asked, wish: Wish, ask: Ask, route: Route, now: datetime) -> dict[str, Any]:
    """`ask` is the request as it is sent, the wish has it as it was asked."""
    return (
        _asked(asked, wish, now)
        | _sent(wish, ask)
        | _UNANSWERED
        | {"lane": route.lane, "lane_reason": route.reason, "deadline": asked.until, "joined_at": now}
    )


def wave_group(ask: Ask, credential: str) -> str:
    """Calls of one group fit into one batch."""
    model = "*" if ask.provider == "anthropic" else ask.model
    return digest(ask.provider, ask.endpoint, model, credential, ask.base_url, canonical(ask.headers))[:32]


# What an earlier try left behind is cleared, except for what it cost.
_UNANSWERED: dict[str, Any] = {
    "status": "wanted",
    "batch_id": None,
    "again": False,
    "http_status": None,
    "response": None,
    "error": None,
    "sent_at": None,
    "ended_at": None,
    "duration_ms": None,
    "reserved_micros": 0,
    "budgets": [],
    "reused_from": None,
    "shape": "",
    "input_estimate": 0,
}


def _asked(asked: Asked, wish: Wish, now: datetime) -> dict[str, Any]:
    saved: Any = wish.saved or {}
    return {
        "id": wish.id,
        "task_id": asked.task["id"],
        "version": asked.task["version"],
        "priority": asked.task["priority"],
        "body_hash": wish.ask.hash,
        "occurrence": wish.occurrence,
        "position": wish.position,
        "step": wish.step,
        "asked_model": wish.ask.model,
        "credential": wish.credential,
        "attempt": saved.get("attempt", 0),
        "cost_usd": saved.get("cost_usd", Decimal(0)),
        "saved_usd": saved.get("saved_usd", Decimal(0)),
        "created_at": saved.get("created_at", now),
    }


def _sent(wish: Wish, ask: Ask) -> dict[str, Any]:
    return {
        "provider": ask.provider,
        "endpoint": ask.endpoint,
        "model": ask.model,
        "base_url": ask.base_url,
        "headers": ask.headers,
        "request": ask.body,
        "tools": wish.provider.tools(ask),
        "wave_group": wave_group(ask, wish.credential),
    }
