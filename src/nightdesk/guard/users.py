"""Who may do what: people with a role, the rights that roles bring, and how much risk each may decide about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import Forbidden
from nightdesk.store import users
from nightdesk.store.desk import RISKS

Right = Literal["submit", "read", "review", "release", "operate", "audit", "admin"]

RIGHTS: dict[str, frozenset[Right]] = {
    "requester": frozenset({"submit", "read"}),
    "reviewer": frozenset({"read", "review"}),
    "operator": frozenset({"submit", "read", "operate", "release"}),
    "auditor": frozenset({"read", "audit"}),
    "admin": frozenset({"submit", "read", "review", "release", "operate", "audit", "admin"}),
}


@dataclass(frozen=True)
class User:
    """A person. `ceiling` is the highest risk that they may decide about."""

    id: str
    name: str
    role: str
    ceiling: str
    identities: Mapping[str, str] = field(default_factory=dict)
    preferences: Mapping[str, Json] = field(default_factory=dict)

    @property
    def rights(self) -> frozenset[Right]:
        return RIGHTS[self.role]

    @property
    def actor(self) -> str:
        """How the paper trail names them, whichever way they came."""
        return f"user:{self.name}"


def require(user: User, right: Right) -> None:
    if right not in user.rights:
        raise Forbidden(right)


def reaches(ceiling: str, risk: str) -> bool:
    """Whether work of this risk is within the ceiling."""
    return RISKS.index(risk) <= RISKS.index(ceiling)


def count_deciders(conn: sa.Connection, risk: str) -> int:
    """How many people there are who may decide about work of this risk."""
    roles = [role for role, rights in RIGHTS.items() if "review" in rights]
    able = users.c.role.in_(roles) & users.c.ceiling.in_(RISKS[RISKS.index(risk) :]) & users.c.disabled_at.is_(None)
    return int(conn.execute(sa.select(sa.func.count()).select_from(users).where(able)).scalar_one())
