"""Bearer tokens: who may use the API, and for what. The secret is shown once and stored as a hash alone."""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.errors import Invalid, NotFound
from nightdesk.settings import nearest
from nightdesk.store import Database, tokens
from nightdesk.watch.events import record

SCOPES = ("submit", "read", "review", "operate", "admin")
_PREFIX = "nd_"


@dataclass(frozen=True)
class Created:
    """A new token. `secret` exists here and nowhere else."""

    id: str
    secret: str


@dataclass(frozen=True)
class Bearer:
    """Who a request comes from. `admin` brings every scope; without a tenant it is for all of them."""

    id: str
    name: str
    scopes: frozenset[str]
    tenant: str | None


@dataclass(frozen=True)
class Token:
    id: str
    name: str
    scopes: list[str]
    tenant: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    created_by: str


_COLUMNS = tuple(tokens.c[name] for name in Token.__dataclass_fields__)


def create_token(
    db: Database,
    clock: Clock,
    name: str,
    scopes: Collection[str],
    *,
    actor: str,
    tenant: str | None = None,
    expires_at: datetime | None = None,
) -> Created:
    now = clock.now()
    faults = _faults(name, scopes, tenant, expires_at, now)
    if faults:
        raise Invalid("The token cannot be created", faults, "Mend these and try again.")
    created = Created("token_" + secrets.token_hex(8), _PREFIX + secrets.token_urlsafe(32))
    about = {"name": name, "scopes": [scope for scope in SCOPES if scope in scopes], "tenant": tenant}
    row = {"id": created.id, "hash": _hash(created.secret), "created_at": now, "expires_at": expires_at}
    with db.write() as conn:
        conn.execute(tokens.insert(), {**row, **about, "created_by": actor})
        record(
            conn, now, "token_created", cause="a token was asked for", actor=actor, detail={"id": created.id, **about}
        )
    return created


def verify_token(db: Database, clock: Clock, secret: str) -> Bearer | None:
    """Who the secret belongs to, unless it is unknown, expired or revoked."""
    presented = _hash(secret)
    with db.read() as conn:
        row = conn.execute(sa.select(*_COLUMNS, tokens.c.hash).where(tokens.c.hash == presented)).first()
    if row is None or not hmac.compare_digest(row.hash, presented):
        return None
    if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= clock.now()):
        return None
    scopes = SCOPES if "admin" in row.scopes else row.scopes
    return Bearer(row.id, row.name, frozenset(scopes), row.tenant)


def list_tokens(db: Database) -> list[Token]:
    """All that were ever created, oldest first."""
    with db.read() as conn:
        return [Token(*row) for row in conn.execute(sa.select(*_COLUMNS).order_by(tokens.c.created_at, tokens.c.id))]


def revoke_token(db: Database, clock: Clock, token_id: str, *, actor: str, why: str = "") -> bool:
    """From now on the token opens nothing. False: it was revoked before."""
    now = clock.now()
    with db.write() as conn:
        still_good = (tokens.c.id == token_id) & tokens.c.revoked_at.is_(None)
        if conn.execute(tokens.update().where(still_good).values(revoked_at=now)).rowcount:
            record(conn, now, "token_revoked", cause=why or "revoked", actor=actor, detail={"id": token_id})
            return True
        if conn.execute(sa.select(tokens.c.id).where(tokens.c.id == token_id)).first() is None:
            raise NotFound(f"There is no token {token_id}.", "Run: nightdesk token list")
    return False


def _faults(
    name: str, scopes: Collection[str], tenant: str | None, expires_at: datetime | None, now: datetime
) -> list[tuple[str, str]]:
    faults = [
        ("scopes", f'"{scope}" is not a scope{nearest(scope, list(SCOPES))}') for scope in scopes if scope not in SCOPES
    ]
    if not name.strip():
        faults.append(("name", "is empty"))
    if not scopes:
        faults.append(("scopes", f"is empty; known are {', '.join(SCOPES)}"))
    if tenant is not None and not tenant.strip():
        faults.append(("tenant", "is empty; leave it out for all tenants"))
    if expires_at is not None and expires_at <= now:
        faults.append(("expires_at", "is in the past"))
    return faults


def _hash(secret: str) -> str:
    """A plain hash is enough: the secret is 32 random bytes, which no one can guess through."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
