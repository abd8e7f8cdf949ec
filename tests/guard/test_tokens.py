"""A token opens the door for its scopes and tenant until it expires or is revoked; its secret is nowhere stored."""

from collections.abc import Collection
from datetime import timedelta

import pytest
import sqlalchemy as sa

from nightdesk.clock import SetClock
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard.tokens import SCOPES, create_token, list_tokens, revoke_token, verify_token
from nightdesk.store import Database, events, metadata


def test_the_secret_tells_who_it_is(db: Database, clock: SetClock) -> None:
    created = create_token(db, clock, "shop", ["read", "submit"], tenant="acme", actor="cli")
    bearer = verify_token(db, clock, created.secret)
    assert bearer is not None
    assert (bearer.id, bearer.name, bearer.tenant) == (created.id, "shop", "acme")
    assert bearer.scopes == {"submit", "read"}


def test_admin_brings_every_scope(db: Database, clock: SetClock) -> None:
    bearer = verify_token(db, clock, create_token(db, clock, "ops", ["admin"], actor="cli").secret)
    assert bearer is not None
    assert bearer.scopes == set(SCOPES)
    assert bearer.tenant is None


@pytest.mark.parametrize("secret", ["", "nd_", "nd_" + "A" * 43, "\x00", "\ud800", "Käse", "x" * 100_000])
def test_an_unknown_secret_opens_nothing(db: Database, clock: SetClock, secret: str) -> None:
    create_token(db, clock, "shop", ["read"], actor="cli")
    assert verify_token(db, clock, secret) is None


def test_a_changed_secret_opens_nothing(db: Database, clock: SetClock) -> None:
    secret = create_token(db, clock, "shop", ["read"], actor="cli").secret
    flipped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for wrong in (flipped, secret[:-1], secret + " ", secret.upper()):
        assert verify_token(db, clock, wrong) is None


def test_it_ends_when_it_expires(db: Database, clock: SetClock) -> None:
    until = clock.now() + timedelta(hours=1)
    secret = create_token(db, clock, "shop", ["read"], expires_at=until, actor="cli").secret
    clock.advance(3599)
    assert verify_token(db, clock, secret) is not None
    clock.advance(1)
    assert verify_token(db, clock, secret) is None


def test_it_ends_when_it_is_revoked(db: Database, clock: SetClock) -> None:
    created = create_token(db, clock, "shop", ["read"], actor="cli")
    assert revoke_token(db, clock, created.id, actor="cli", why="left the team")
    assert not revoke_token(db, clock, created.id, actor="cli")
    assert verify_token(db, clock, created.secret) is None
    (token,) = list_tokens(db)
    assert (token.revoked_at, token.created_by) == (clock.now(), "cli")


def test_what_does_not_exist_cannot_be_revoked(db: Database, clock: SetClock) -> None:
    with pytest.raises(NotFound, match="token_none"):
        revoke_token(db, clock, "token_none", actor="cli")


@pytest.mark.parametrize(
    ("name", "scopes", "tenant", "says"),
    [
        ("shop", ["raed"], None, 'did you mean "read"'),
        ("shop", [], None, "known are submit, read, review, operate, admin"),
        (" ", ["read"], None, "name: is empty"),
        ("shop", ["read"], "", "tenant: is empty"),
    ],
)
def test_faults_are_named(
    db: Database, clock: SetClock, name: str, scopes: Collection[str], tenant: str | None, says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        create_token(db, clock, name, scopes, tenant=tenant, actor="cli")
    assert list_tokens(db) == []


def test_all_faults_are_named_at_once(db: Database, clock: SetClock) -> None:
    with pytest.raises(Invalid) as refused:
        create_token(db, clock, "", ["write", "raed"], expires_at=clock.now(), actor="cli")
    assert [path for path, _ in refused.value.faults] == ["scopes", "scopes", "name", "expires_at"]


def test_creating_and_revoking_leave_events(db: Database, clock: SetClock) -> None:
    created = create_token(db, clock, "shop", ["read"], actor="cli")
    revoke_token(db, clock, created.id, actor="web", why="left the team")
    columns = events.c.kind, events.c.cause, events.c.actor, events.c.detail
    with db.read() as conn:
        made, ended = conn.execute(sa.select(*columns).order_by(events.c.id)).all()
    assert (made.kind, made.actor) == ("token_created", "cli")
    assert made.detail == {"id": created.id, "name": "shop", "scopes": ["read"], "tenant": None}
    assert tuple(ended) == ("token_revoked", "left the team", "web", {"id": created.id})


def test_no_table_holds_the_secret(db: Database, clock: SetClock) -> None:
    secret = create_token(db, clock, "shop", ["read"], actor="cli").secret
    with db.read() as conn:
        everything = repr([conn.execute(sa.select(table)).all() for table in metadata.sorted_tables])
    assert "shop" in everything
    assert secret not in everything
    assert secret.removeprefix("nd_") not in everything
