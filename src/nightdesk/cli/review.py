"""`nightdesk review`: what lies on the desk, and deciding about it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightdesk.cli.add import read_json
from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note as hint, say, show_fields, show_json, show_table
from nightdesk.errors import Invalid

if TYPE_CHECKING:
    from nightdesk.house import House

app = typer.Typer(help="The desk: see what waits for a decision, and decide.", no_args_is_help=True)

ItemId = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]
Hash = Annotated[str | None, typer.Option(help="Of what you have seen; without it, what lies there now.")]
Reason = Annotated[str, typer.Option(help="Why, as one of the playbook's reasons or another.")]
Note = Annotated[str, typer.Option(help="What else there is to say about it.")]
_EDITS = "Fields with their new values: JSON, or @FILE with JSON in it, or - for standard input."
_HOW_TO_EDIT = """Name fields with their new values, as in '{"title": "Kettle"}'"""
_COLUMNS = ("id", "title", "risk", "priority", "passed", "why_here", "laid_at", "deadline", "leased_by")
_GATES = ("gate", "field", "passed", "value", "threshold", "evidence")
_EVIDENCE = ("claim", "sources", "supported", "wants")
_HISTORY = ("at", "verb", "actor", "reason", "note")
_ELSEWHERE = ("payload", "input", "gates", "evidence", "history", "hidden")


@app.command("list")
def list_(
    kind: Annotated[str | None, typer.Option(help="Only draft, question or budget.")] = None,
    playbook: Annotated[str | None, typer.Option(help="Only of this playbook.")] = None,
    risk: Annotated[str | None, typer.Option(help="Only of this risk.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    failed: Annotated[
        bool | None, typer.Option("--failed/--passed", help="Only what failed its gates, or not.")
    ] = None,
    later: Annotated[bool, typer.Option("--later", help="What was put off, instead of what is due.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Items on a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended.")] = None,
    json: JsonOption = False,
) -> None:
    """What waits for a decision: what holds up work first, then urgent kinds, by risk and doubt."""
    with opened(asks=True) as house:
        from dataclasses import asdict

        from nightdesk.review.desk import KINDS, Filters, list_items
        from nightdesk.store.desk import RISKS

        _require_known("kind", kind, KINDS)
        _require_known("risk", risk, RISKS)
        page = list_items(house, Filters(kind, playbook, risk, tenant, failed, later), limit, cursor)
    if json:
        show_json(asdict(page))
        return
    show_table(_COLUMNS, page.items, "Nothing waits for a decision.")
    counts = page.counts
    hint(f"{counts.left} of {counts.total} drafts are left, about {counts.minutes_left:.0f} minutes.")
    if counts.later and not later:
        hint(f"{counts.later} are put off; see them with --later.")
    if page.next_cursor:
        hint(f"There are more; add --cursor {page.next_cursor}")


@app.command("show")
def show(item: ItemId, json: JsonOption = False) -> None:
    """One item with all that a decision rests on."""
    with opened(asks=True) as house:
        from nightdesk.review.asked import Actor
        from nightdesk.review.cards import find

        card = find(house, item, Actor.at_terminal(actor()))
    if json:
        show_json(card)
        return
    show_fields({name: value for name, value in card.items() if name not in _ELSEWHERE})
    _show_payload(card)
    for name, columns in (("gates", _GATES), ("evidence", _EVIDENCE), ("history", _HISTORY)):
        if card[name]:
            show_table(columns, card[name], "")


@app.command("approve")
def approve(item: ItemId, hash: Hash = None, note: Note = "", json: JsonOption = False) -> None:
    """Take it as it is."""
    _decide(item, "approve", hash, json, note=note)


@app.command("edit")
def edit(
    item: ItemId,
    edits: Annotated[str, typer.Argument(help=_EDITS)],
    hash: Hash = None,
    reason: Reason = "",
    note: Note = "",
    json: JsonOption = False,
) -> None:
    """Change fields of it, and take it so. A question is answered with '{"choice": "…"}'."""
    fields = read_json(edits)
    if not isinstance(fields, dict):
        raise Invalid("The edits cannot be read", [("edits", "must be an object of fields")], _HOW_TO_EDIT)
    _decide(item, "edit", hash, json, edits=fields, reason=reason, note=note)


@app.command("send-back")
def send_back(item: ItemId, reason: Reason = "", note: Note = "", hash: Hash = None, json: JsonOption = False) -> None:
    """Have it done again, for the next night; the next version is told why."""
    _decide(item, "send_back", hash, json, reason=reason, note=note)


@app.command("reject")
def reject(item: ItemId, reason: Reason = "", note: Note = "", hash: Hash = None, json: JsonOption = False) -> None:
    """End it: nothing of it leaves the house."""
    _decide(item, "reject", hash, json, reason=reason, note=note)


@app.command("later")
def later(
    item: ItemId,
    until: Annotated[str, typer.Option(help="end (of the queue), tomorrow, or a moment.")] = "end",
    hash: Hash = None,
    json: JsonOption = False,
) -> None:
    """Put it off."""
    _decide(item, "later", hash, json, reason=until)


@app.command("undo")
def undo(item: ItemId, hash: Hash = None, json: JsonOption = False) -> None:
    """Take back the last decision about it, as long as nothing has come of it."""
    _decide(item, "undo", hash, json)


def _decide(item: str, verb: str, hash: str | None, json: bool, **said: Any) -> None:
    with opened() as house:
        from nightdesk.review.asked import Actor, Asked
        from nightdesk.review.decisions import decide

        seen = hash or _hash_of(house, item)
        outcome = decide(house, Asked(item, verb, seen, Actor.at_terminal(actor()), **_given(said)))
    if json:
        show_json(outcome.as_json())
        return
    say(f"{outcome.id} {outcome.state}")
    if outcome.awaits:
        hint(f"It still takes {outcome.awaits}.")
    if outcome.seeded:
        found = "You caught it" if outcome.seeded.caught else "You have missed it"
        hint(f"This was a check: the draft was known to be bad ({outcome.seeded.why}). {found}.")
    elif outcome.can_undo:
        hint(f"To take it back: nightdesk review undo {outcome.id}")


def _hash_of(house: "House", item: str) -> str:
    from nightdesk.review.cards import find

    return str(find(house, item)["hash"])


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value}


def _require_known(option: str, stated: str | None, known: tuple[str, ...]) -> None:
    if stated is not None and stated not in known:
        raise Invalid(f"There is no such {option}", [(option, f"known are {', '.join(known)}")])


def _show_payload(card: dict[str, Any]) -> None:
    """What is to be decided on, with everything unseen written out."""
    from nightdesk.review.hidden import shown

    payload = card["payload"]
    for name, value in (payload if isinstance(payload, dict) else {"payload": payload}).items():
        say("")
        say(f"{name}:")
        for line in value if isinstance(value, list) else [value]:
            text = line if isinstance(line, str) else _as_json(line)
            say(shown(text))


def _as_json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
