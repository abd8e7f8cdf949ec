"""A house in the morning: drafts of four kinds on the desk, made by real legs, and people who decide about them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.guard.users import User
from nightdesk.playbook import Registry, playbook
from nightdesk.review.asked import Actor, Asked, Decided, Outcome
from nightdesk.review.cards import Card, find
from nightdesk.review.decisions import decide
from nightdesk.review.desk import Filters, list_items
from nightdesk.store import decisions, drafts, events, reviews, tasks, users
from nightdesk.work import Desk
from tests.support.hand import Hand

OUTPUT = {"title": "string", "bullets": ["string"], "price": "number"}
# Each kind of work by its name, which says what its risk is.
KINDS = {"listing": "customer", "advert": "reversible", "payout": "irreversible", "memo": "internal"}
MEMO_GATES = [{"length": {"field": "title", "max": 3}}]


async def write(order: Any, _desk: Desk) -> Json:
    return {"title": order.name, "bullets": [f"{order.name} one", "zwei ä"], "price": 12.5}


class Morning(Hand):
    """`listing` and the others are work of the night that is over; what they make is a function of the input."""

    def open(self, body: Any = write, **stated: Any) -> None:
        """Have the four kinds, each with what is stated for all."""
        common = {"input": {"name": "string"}, "key": "{name}", "when": "now", "output": OUTPUT}
        made = [
            playbook(name, **(common | {"risk": risk} | ({"gates": MEMO_GATES} if name == "memo" else {}) | stated))(
                body
            )
            for name, risk in KINDS.items()
        ]
        kept = [known for known in self.house.registry if known.name not in KINDS]
        self.house = dataclasses.replace(self.house, registry=Registry([*kept, *made]))

    def lay(self, kind: str, *names: str, **fields: Any) -> list[str]:
        """Drafts of these tasks, on the desk."""
        ids = [self.submit(kind, {"name": name}, **fields).id for name in names]
        self.run_together(self.due())
        return ids

    def one(self, kind: str = "listing", name: str = "kettle", **fields: Any) -> str:
        return self.lay(kind, name, **fields)[0]

    def hire(self, name: str, role: str = "reviewer", ceiling: str = "irreversible") -> Actor:
        """A person who sits at the desk."""
        row = {"id": f"user-{name}", "name": name, "role": role, "ceiling": ceiling, "identities": {}}
        with self.house.db.write() as conn:
            conn.execute(users.insert(), row | {"preferences": {}, "created_at": self.clock.now()})
        return Actor.of(User(f"user-{name}", name, role, ceiling), "web", "session")

    def card(self, item: str, actor: Actor | None = None) -> Card:
        return find(self.house, item, actor)

    def decide(self, item: str, verb: str, actor: Actor, hash: str | None = None, **said: Any) -> Outcome:
        seen = hash or self.card(item)["hash"]
        return decide(self.house, Asked(item, verb, seen, actor, **said))

    def outcome_in_the_way(self, item: str, verb: str, actor: Actor, hash: str | None = None, **said: Any) -> Outcome:
        try:
            told = self.decide(item, verb, actor, hash, **said)
        except Decided as error:
            return error.outcome
        raise AssertionError(f"it was not refused: {told}")

    def listed(self, **filters: Any) -> list[str]:
        return [item["id"] for item in list_items(self.house, Filters(**filters), 200).items]

    def rows(self, table: sa.Table, item: str | None = None) -> Sequence[Any]:
        query = sa.select(table)
        if item is not None:
            query = query.where((table.c.task_id if "task_id" in table.c else table.c.id) == item)
        with self.house.db.read() as conn:
            return conn.execute(query.order_by(*table.primary_key)).mappings().all()

    def decisions(self, item: str | None = None) -> Sequence[Any]:
        return self.rows(decisions, item)

    def stored(self, item: str) -> Sequence[Any]:
        """What the database holds of a draft and its task, byte by byte."""
        raw = [sa.cast(column, sa.Text) for column in (tasks.c.result, tasks.c.error, drafts.c.payload, drafts.c.gates)]
        plain = (tasks.c.state, tasks.c.version, tasks.c.playbook_version, tasks.c.ended_at, tasks.c.waiting_for)
        desk = (reviews.c.hash, reviews.c.later_until, reviews.c.put_back_at, drafts.c.hash, drafts.c.passed)
        here = (reviews.c.task_id == tasks.c.id) & (reviews.c.version == tasks.c.version)
        draft = (drafts.c.task_id == tasks.c.id) & (drafts.c.version == tasks.c.version)
        query = sa.select(*raw, *plain, *desk).join(reviews, here).outerjoin(drafts, draft, full=False)
        with self.house.db.read() as conn:
            return tuple(conn.execute(query.select_from(tasks).where(tasks.c.id == item)).one())

    def rows_of_everything(self) -> dict[str, Any]:
        """What a look must not change."""
        return {table.name: self.rows(table) for table in (tasks, reviews, drafts, decisions, events)}

    def told(self, item: str) -> list[tuple[str, str | None, str, str]]:
        """The events of the item from when it first lay on the desk."""
        query = sa.select(events).where(events.c.task_id == item).order_by(events.c.id)
        with self.house.db.read() as conn:
            found = [(row.kind, row.state, row.cause, row.actor) for row in conn.execute(query)]
        first = next(number for number, row in enumerate(found) if row[1] == "review")
        return found[first + 1 :]


TERMINAL = Actor.at_terminal("cli:test")


def token(name: str = "robot", ceiling: str = "customer", *rights: Any) -> Actor:
    return Actor(f"token:{name}", None, "token", ceiling, "api", "token", frozenset(rights or ("review",)))
