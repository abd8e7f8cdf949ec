"""What a decision rests on: what it does and whether that can be taken back, evidence, provenance, what is new."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.playbook import Playbook
from nightdesk.playbook.gates import Sources
from nightdesk.playbook.keys import filled
from nightdesk.review.claims import claims_in
from nightdesk.review.edits import diff
from nightdesk.review.items import Item, Row
from nightdesk.review.material import Material
from nightdesk.review.places import items_of, texts_at, values_at
from nightdesk.review.words import plain
from nightdesk.store import calls, drafts

_WRITES = {
    "folder": "Write", "webhook": "Send", "wordpress": "Publish", "smtp": "Mail", "sheet": "Enter", "shopify": "Update",
    "indexnow": "Announce",
}  # fmt: skip
_TELLING = ("webhook", "smtp", "apprise", "slack", "telegram", "indexnow")


def sentence_of(playbook: Playbook, task: Row) -> str:
    """What is decided: verb, object, place."""
    release = playbook.definition.get("release") or {}
    what = playbook.title + (f": {task['key']}" if playbook.key else "")
    if not release:
        return f"Accept “{what}”; nothing of it leaves the house"
    place = next((str(release[name]) for name in ("path", "slug", "url", "channel") if release.get(name)), "")
    where = f", {filled(place, task['input'])}" if place else ""
    return f"{_WRITES.get(release['to'], 'Release')} “{what}” to {release['to']}{where}"


def rollback_of(playbook: Playbook, item: Item) -> str:
    to = (playbook.definition.get("release") or {}).get("to")
    if item.review["risk"] == "irreversible":
        return "irreversible"
    if to is None:
        return "nothing leaves the house; until then it can be undone"
    if to in _TELLING:
        return "it can be undone until it is sent; what is sent cannot be called back"
    return "it can be undone until it is released; after that with: nightdesk release undo"


def evidence_of(playbook: Playbook, item: Item) -> list[Json]:
    """Each claim with its sources, and with the words of the input that stand beside that source."""
    material = Material(item.payload, item.task["input"])
    return [
        {
            "claim": claim.said,
            "sources": claim.sources,
            "snippets": _snippets(gate.settings, material, claim.sources),
            "links": [source for source in claim.sources if source.startswith(("https://", "http://"))],
            "supported": not claim.wants,
            "wants": claim.wants,
        }
        for gate in playbook.gates
        if isinstance(gate.settings, Sources)
        for claim in claims_in(gate.settings, material)
    ]


def _snippets(settings: Sources, material: Material, sources: list[str]) -> list[str]:
    parent = (settings.among or "").rpartition(".")[0]
    if not parent:
        return []
    named = {plain(source) for source in sources}
    beside = []
    for found in values_at(material.input, parent):
        for entry in items_of(found):
            texts = [str(text.value) for text in texts_at(entry.value, [None])]
            if named & {plain(text) for text in texts}:
                beside += [text for text in texts if plain(text) not in named]
    return beside


def provenance_of(conn: sa.Connection, item: Item) -> Json:
    """By which playbook and model it was made, at what cost. A copy tells what its original would."""
    made = item.review["copy_of"] or {"task_id": item.id, "version": item.review["version"]}
    asked = sa.select(calls.c.model).where(
        calls.c.task_id == made["task_id"], calls.c.version == made["version"], calls.c.status == "done"
    )
    models = dict.fromkeys(conn.scalars(asked.order_by(calls.c.position)))
    return {
        **{name: item.task[name] for name in ("playbook", "playbook_version")},
        "models": list(models),
        "attempt": item.review["version"],
        "cost_usd": format(item.task["cost_usd"], "f"),
        "laid_at": item.review["created_at"],
    }


def change_of(conn: sa.Connection, item: Item) -> Json:
    """Since it was sent back: by whom and why, and what is another thing now."""
    last = item.review["version"] - 1
    sent = [row for row in item.history if row["version"] == last and row["undone_at"] is None]
    if not sent or sent[-1]["verb"] != "send_back":
        return None
    before = sa.select(drafts.c.payload).where(drafts.c.task_id == item.id, drafts.c.version == last)
    payload = conn.execute(before).scalar_one_or_none()
    return told(sent[-1]) | {"diff": diff(payload, item.payload) if payload is not None else []}


def told(row: Mapping[Any, Any]) -> dict[str, Any]:
    kept = ("verb", "actor", "channel", "reason", "note", "final", "diff", "undone_by")
    return {name: row[name] for name in kept} | {"at": row["decided_at"]}
