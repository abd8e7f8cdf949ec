"""`nightdesk token`: who may use the API. The secret is shown once; only its hash is stored."""

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from nightdesk.cli.rooms import opened
from nightdesk.cli.terminal import JsonOption, actor, note, say, show_json, show_table

app = typer.Typer(help="Bearer tokens of the API.", no_args_is_help=True)


@app.command("create")
def create(
    scopes: Annotated[str, typer.Option(help="What it may do: submit,read,review,operate,admin.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "unnamed",
    tenant: Annotated[str | None, typer.Option(help="The only tenant it may see.")] = None,
    expires_days: Annotated[int | None, typer.Option(min=1, max=3650, help="Days until it ends.")] = None,
    json: JsonOption = False,
) -> None:
    """Make a token and show its secret, this once."""
    wanted = [scope for scope in (part.strip() for part in scopes.split(",")) if scope]
    with opened() as house:
        from nightdesk.guard.tokens import create_token

        expires_at = house.clock.now() + timedelta(days=expires_days) if expires_days else None
        made = create_token(house.db, house.clock, name, wanted, tenant=tenant, expires_at=expires_at, actor=actor())
    if json:
        shown = {"id": made.id, "token": made.secret, "scopes": wanted, "tenant": tenant, "expires_at": expires_at}
        show_json(shown)
        return
    say(made.secret)
    note(f"Keep it now: it is not shown again. To take it back: nightdesk token revoke {made.id}")


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """All tokens, without their secrets."""
    with opened(asks=True) as house:
        from nightdesk.guard.tokens import list_tokens

        found = [asdict(token) for token in list_tokens(house.db)]
    if json:
        show_json({"items": found})
        return
    columns = ("id", "name", "scopes", "tenant", "created_at", "expires_at", "revoked_at")
    show_table(columns, found, "No tokens yet. Make one: nightdesk token create --scopes submit,read")


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, not its secret.")],
    json: JsonOption = False,
) -> None:
    """End a token at once."""
    with opened() as house:
        from nightdesk.guard.tokens import revoke_token

        revoked = revoke_token(house.db, house.clock, token_id, actor=actor())
    if json:
        show_json({"id": token_id, "revoked": revoked})
    else:
        say(f"Token {token_id} is revoked." if revoked else f"Token {token_id} was revoked before.")
