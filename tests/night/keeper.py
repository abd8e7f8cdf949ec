"""A house whose nights are kept by hand: the test says when somebody looks, and which legs run in between."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from anthropic import AsyncAnthropic

from nightdesk.canonical import Json
from nightdesk.model.last_call import call_back_due
from nightdesk.model.posting import Posting
from nightdesk.model.waves import form_waves
from nightdesk.night.keeping import keep
from nightdesk.playbook import Registry, playbook
from nightdesk.settings import Settings
from nightdesk.store import events, nights, plan_items, tasks
from nightdesk.work import Desk
from nightdesk.work.insight import history
from tests.model.asking import AskingHouse
from tests.support.hand import Body, Hand

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


async def quick(_order: Any, _desk: Desk) -> Json:
    return None


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Keeper(Hand):
    """Its playbook `job` is work of the night."""

    def have(self, body: Body | None = quick, **stated: Any) -> None:
        super().have(body, **({"when": "night"} | stated))

    def have_also(self, name: str, body: Body = quick, **stated: Any) -> None:
        """Another playbook of the night beside `job`."""
        stated = {"input": {"name": "string"}, "key": "{name}", "when": "night", "risk": "internal"} | stated
        self.house = dataclasses.replace(
            self.house, registry=Registry([*self.house.registry, playbook(name, **stated)(body)])
        )

    def add(self, *names: str, playbook: str = "job", **fields: Any) -> list[str]:
        return [self.submit(playbook, {"name": name}, **fields).id for name in names]

    def set(self, **sections: dict[str, Any]) -> None:
        """Change settings: `set(night={"zone": "Europe/Berlin"})`."""
        stated = self.house.settings.model_dump()
        changed = {name: stated[name] | values for name, values in sections.items()}
        self.house = dataclasses.replace(self.house, settings=Settings.model_validate(stated | changed))

    def look(self, at: str = "") -> None:
        """Somebody looks after the nights, at this moment of UTC if one is stated."""
        if at:
            self.clock.move_to(utc(at))
        keep(self.house)

    def night(self, name: str) -> Any:
        with self.house.db.read() as conn:
            return conn.execute(sa.select(nights).where(nights.c.name == name)).mappings().one()

    def nights(self) -> dict[str, str]:
        with self.house.db.read() as conn:
            return {row.name: row.state for row in conn.execute(sa.select(nights).order_by(nights.c.starts_at))}

    def plan(self, night: str) -> list[str]:
        """The tasks that were chosen, in their order."""
        query = sa.select(plan_items.c.task_id).where(plan_items.c.night == night, plan_items.c.chosen)
        with self.house.db.read() as conn:
            return list(conn.scalars(query.order_by(plan_items.c.position)))

    def states(self, ids: Sequence[str] | None = None) -> list[str]:
        query = sa.select(tasks.c.id).order_by(tasks.c.created_at, tasks.c.id)
        with self.house.db.read() as conn:
            known = ids if ids is not None else list(conn.scalars(query))
        return [self.state(task_id) for task_id in known]

    def steps(self) -> list[tuple[str, str]]:
        """Every step that a night was taken: its name, and the state that it went to."""
        query = sa.select(events.c.detail, events.c.state).where(events.c.kind == "night").order_by(events.c.id)
        with self.house.db.read() as conn:
            return [(row.detail["night"], row.state) for row in conn.execute(query)]

    def why(self, task_id: str) -> str:
        """The last thing that was said of the task."""
        return str(history(self.house, task_id)[-1]["cause"])


class AskingKeeper(AskingHouse, Keeper):
    """The same with simulated providers, whose time passes with the clock."""

    def look(self, at: str = "") -> None:
        if at:
            self.pass_time(max(0.0, (utc(at) - self.clock.now()).total_seconds()))
        keep(self.house)

    def work_until(self, at: str, *, step_seconds: float = 300) -> None:
        """Let everything go on as it does by itself, in steps of some minutes."""
        while self.clock.now() < utc(at):
            self.look()
            self.run_all()
            form_waves(self.room, self._wake)
            self._carrier(Posting).post_due()
            self.pass_time(min(step_seconds, (utc(at) - self.clock.now()).total_seconds()))
            self.collect()
            call_back_due(self.room, self._wake)
            self.sweep()
        self.look()
        self.run_all()


async def asks(order: Any, desk: Desk) -> Json:
    """One question to a model, whose answer is the draft."""
    client = AsyncAnthropic(http_client=desk.http_client())
    said: Any = [{"role": "user", "content": f"Write about {order.name}."}]
    message = await client.messages.create(model="claude-haiku-4-5", max_tokens=200, messages=said)
    block: Any = message.content[0]
    return {"text": block.text}
