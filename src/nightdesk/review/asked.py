"""What somebody asks of the desk, who they are, and what they are told."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import Conflict, Forbidden
from nightdesk.guard.users import RIGHTS, Right, User

VERBS = ("approve", "edit", "send_back", "reject", "later", "undo")
# Whoever sits at the house's own terminal, or holds a token, is no person that four eyes could be counted by.
IMPERSONAL = ("terminal", "api")


@dataclass(frozen=True)
class Actor:
    """Who decides, by which way they came, and how sure it is that it is they.

    `channel` is one of web, link, chat, terminal, api; `assurance` one of session, link, chat, terminal, token.
    """

    name: str
    user_id: str | None
    role: str
    ceiling: str
    channel: str
    assurance: str
    rights: frozenset[Right] = field(default=frozenset())

    @classmethod
    def of(cls, user: User, channel: str, assurance: str) -> "Actor":
        return cls(user.actor, user.id, user.role, user.ceiling, channel, assurance, user.rights)

    @classmethod
    def at_terminal(cls, name: str) -> "Actor":
        """Whoever may run the house's own program may do everything."""
        return cls(name, None, "admin", "irreversible", "terminal", "terminal", RIGHTS["admin"])

    def require(self, right: Right) -> None:
        if right not in self.rights:
            raise Forbidden(right)


@dataclass(frozen=True)
class Asked:
    """One decision. `hash` is of what the actor has seen; `tenant` bounds what they may see at all.

    For `later` the reason says until when: `end` of the queue (which nothing said means, too), `tomorrow`, or a moment.
    """

    item: str
    verb: str
    hash: str
    actor: Actor
    edits: Mapping[str, Json] | None = None
    reason: str | None = None
    note: str | None = None
    opened_at: datetime | None = None
    tenant: str | None = None


@dataclass(frozen=True)
class Seeded:
    """What a reviewer is told once they have answered a known-bad draft."""

    caught: bool
    why: str


@dataclass(frozen=True)
class Outcome:
    """Where an item stands, and the decision that brought it there, if one did.

    `hash` is of what the item holds now. `awaits` says what is still missing where the decision does not settle it.
    """

    id: str
    kind: str
    state: str
    hash: str
    version: int | None = None
    verb: str | None = None
    actor: str | None = None
    channel: str | None = None
    at: datetime | None = None
    reason: str | None = None
    note: str | None = None
    diff: Json = None
    final: bool = False
    awaits: str | None = None
    undone_by: str | None = None
    can_undo: bool = False
    seeded: Seeded | None = None

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = jsonable(asdict(self))
        return told

    @property
    def sentence(self) -> str:
        """What became of it, for somebody who comes too late."""
        if self.verb is None:
            return f"It is {self.state} now." if self.state != "review" else "It is no longer what you have seen."
        if self.undone_by is not None:
            return f"{self.undone_by} has undone what {self.actor} had decided: {self.verb}."
        return f"{self.actor} has decided: {self.verb.replace('_', ' ')}."


class Decided(Conflict):
    """What is asked for comes too late: the item is another by now, or somebody has decided. `outcome` says what is."""

    def __init__(self, outcome: Outcome, problem: str = "") -> None:
        super().__init__(problem or outcome.sentence, "Look at it again before you decide.")
        self.outcome = outcome
