"""Who may write to a call: the leg that holds the task, once, however often the database makes it try."""

from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.errors import LegLost
from nightdesk.model.admission import Admission
from nightdesk.model.asks import Ask, call_id
from nightdesk.model.calls import Verdict
from nightdesk.model.providers import PROVIDERS
from nightdesk.model.sending import Landing, Sent
from nightdesk.model.wish import Asked, Go, Joined, Wish
from nightdesk.store import budgets, tasks
from nightdesk.work import Desk
from nightdesk.work.tasks import cancel
from tests.model.answering import asked
from tests.model.asking import AskingHouse
from tests.model.dying import MODEL, say

_REQUEST: Any = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Say it."}]}


def _reserved(asking: AskingHouse) -> int:
    with asking.house.db.read() as conn:
        return int(conn.execute(sa.select(sa.func.sum(budgets.c.reserved_micros))).scalar() or 0)


def test_a_leg_that_has_lost_its_task_asks_for_nothing_more(asking_anywhere: AskingHouse) -> None:
    asking = asking_anywhere

    async def cancelled(order: Any, desk: Desk) -> Any:
        await say(desk, "Say one.")
        cancel(asking.house, desk.task_id, actor="test")
        await say(desk, "Say two.")

    async def overtaken(order: Any, desk: Desk) -> Any:
        with asking.house.db.write() as conn:
            mine = tasks.c.id == desk.task_id
            conn.execute(tasks.update().where(mine).values(dispatch=tasks.c.dispatch + 1))
        await say(desk, "Say three.")

    for body, name in ((cancelled, "a"), (overtaken, "b")):
        asking.have(body, lane="live")
        asking.submit("job", {"name": name})
        asking.step()
    assert [task.state for task in asking.tasks()] == ["cancelled", "working"]
    assert (len(asking.calls()), asking.meter()["executions"], _reserved(asking)) == (1, 1, 0)


@pytest.mark.parametrize("lane", ["live", "batch"])
def test_a_transaction_that_was_committed_after_all_is_repeated_without_harm(asking: AskingHouse, lane: str) -> None:
    """The database went away while it committed, so that nobody knew, and the same was done again."""
    outcomes: list[Any] = []

    async def body(order: Any, desk: Desk) -> Any:
        ask = asked(asking.url + "/v1/messages", _REQUEST, x_api_key="k")
        admission = Admission(asking.room, _as_asked(asking, desk), _wish(ask, desk))
        outcomes.extend([await asking.house.db.commit(admission) for _ in range(2)])
        outcomes.append(_reserved(asking))

    asking.set(waves={"canary": False})
    asking.have(body, lane=lane)
    asking.submit("job", {"name": "a"})
    asking.step()
    first, second, reserved = outcomes
    [call] = asking.calls()
    assert type(first) is type(second) is (Go if lane == "live" else Joined)
    assert call.reserved_micros == reserved
    assert (call.status, call.cost_usd) == ("sending" if lane == "live" else "wanted", 0)


def test_an_answer_to_a_request_that_another_leg_has_sent_again_is_not_written(asking: AskingHouse) -> None:
    """Or the money of the second would be settled with the first."""
    landed: list[Any] = []

    async def body(order: Any, desk: Desk) -> Any:
        ask = asked(asking.url + "/v1/messages", _REQUEST, x_api_key="k")
        commit, provider = asking.house.db.commit, PROVIDERS["anthropic"]
        first, second = [await commit(Admission(asking.room, _as_asked(asking, desk), _wish(ask, desk))) for _ in "12"]
        sent = Sent(Verdict(200, {"usage": {"input_tokens": 5, "output_tokens": 5}}), {})
        for go in (first, second, second):
            assert isinstance(go, Go)
            try:
                landed.append(
                    (await commit(Landing(asking.room, provider, go, sent, "main", 1.0, slow=False)))["status"]
                )
            except LegLost:
                landed.append("refused")

    asking.have(body, lane="live")
    asking.submit("job", {"name": "a"})
    asking.step()
    [call] = asking.calls()
    assert (landed, call.status, call.attempt, _reserved(asking)) == (["refused", "done", "done"], "done", 2, 0)


def _as_asked(asking: AskingHouse, desk: Desk) -> Asked:
    with asking.house.db.read() as conn:
        row = conn.execute(sa.select(tasks).where(tasks.c.id == desk.task_id)).mappings().one()
    return Asked(row, row["dispatch"], asking.house.registry.get("job"))


def _wish(ask: Ask, desk: Desk) -> Wish:
    name = call_id(desk.task_id, 1, "", ask.hash, 1)
    return Wish(name, PROVIDERS["anthropic"], ask, "c", "", 1, 1, None, can_divert=False)
