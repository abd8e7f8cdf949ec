"""Waves by hand: tasks that join one, its leaving, and the batches that came of it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.model.waves import form_waves
from nightdesk.store import batches
from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.support.hand import Body

KEY = "sk-night-1234567890"  # pragma: allowlist secret


def join(asking: AskingHouse, names: str) -> None:
    """A task for each letter, followed until its leg has come to rest."""
    for name in names:
        asking.submit("job", {"name": name})
    asking.run_all()


def form(asking: AskingHouse) -> int:
    """The waves that are ready now become batches, which are not sent yet; the answer is how many."""
    return form_waves(asking.room, asking._wake)


def batches_of(asking: AskingHouse) -> list[Any]:
    with asking.house.db.read() as conn:
        return list(conn.execute(sa.select(batches).order_by(batches.c.created_at, batches.c.members.desc())))


def members_of(asking: AskingHouse) -> list[int]:
    return [batch.members for batch in batches_of(asking)]


def posts(url: str, headers: Mapping[str, str], body: Json) -> Body:
    """As an SDK would ask, with these headers. The answer is the status."""

    async def post(order: Any, desk: Desk) -> Any:
        async with desk.http_client() as http:
            answer = await http.post(url, json=body, headers=dict(headers))
            return answer.status_code

    return post


def posts_to_claude(url: str, model: str = "claude-haiku-4-5", key: str = KEY, **headers: str) -> Body:
    named = {"x-api-key": key, "anthropic-version": "2026-10-21"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    said = [{"role": "user", "content": f"Tell {url} of {model} {headers}"}]
    return posts(f"{url}/v1/messages", named, {"model": model, "max_tokens": 50, "messages": said})
