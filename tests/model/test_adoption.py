"""A batch of Anthropic's that was adopted by its size and time alone: until its results tell, it may be another's."""

from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from nightdesk.model.simulator.batches import Batch
from nightdesk.store import batches
from nightdesk.work import Desk
from tests.model.asking import AskingHouse
from tests.model.questions import asks


async def _ask_in_a_group_of_its_own(order: Any, desk: Desk) -> Any:
    """Headers go with a whole batch, so that no two of these tasks are in one."""
    headers = {"anthropic-beta": f"of-{order.name}"}
    return await asks("A question of NAME's.", extra_headers=headers)(order, desk)


@pytest.fixture
def house(asking: AskingHouse) -> AskingHouse:
    asking.set(waves={"canary": False})
    asking.have(_ask_in_a_group_of_its_own, lane="batch")
    return asking


def _lost(house: AskingHouse, *names: str) -> list[Batch]:
    """The provider makes a batch for each of these tasks, and we hear of none."""
    for name in names:
        house.submit("job", {"name": name})
    house.fault("create_lost", times=len(names), status=502)
    house.run_all()
    house.send_waves()
    return house.simulator.shelf.all("anthropic")[::-1]


def _outcomes(house: AskingHouse) -> list[Any]:
    with house.house.db.read() as conn:
        return list(conn.scalars(sa.select(batches.c.outcome)))


def _assert_each_is_done_and_paid_once(house: AskingHouse, count: int) -> None:
    assert [(task.state, bool(task.result)) for task in house.tasks()] == count * [("done", True)]
    assert (house.meter()["by"], house.meter()["repeated"]) == ({"anthropic/batch": count}, 0)


@pytest.mark.parametrize("slow", [0, 1])
def test_two_that_were_taken_for_each_other_find_their_own_and_none_is_sent_again(
    house: AskingHouse, slow: int
) -> None:
    """One of them learns that it holds the wrong one while the other still holds what it looks for."""
    made = _lost(house, "ann", "bob")
    made[0].created_at += 2  # so that the other one is nearer in time to when the first was meant to be sent
    made[slow].ready_at += 1200
    house.settle()
    assert ["not" in outcome for outcome in _outcomes(house)] == [True, True], "they were not taken for each other"
    _assert_each_is_done_and_paid_once(house, 2)


def test_anothers_batch_of_the_same_size_is_let_go_and_ours_is_found(house: AskingHouse) -> None:
    [ours] = _lost(house, "ann")
    ours.created_at += 2
    theirs = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Of others."}]}
    answer = httpx2.post(
        f"{house.url}/v1/messages/batches",
        headers={"x-api-key": "another", "anthropic-version": "2026-10-21"},
        json={"requests": [{"custom_id": "theirs", "params": theirs}]},
    )
    house.settle()
    assert [outcome["not"] for outcome in _outcomes(house)] == [[answer.json()["id"]]]
    assert [task.state for task in house.tasks()] == ["done"]
    assert (house.meter()["executions"], house.meter()["repeated"]) == (2, 0)


def test_what_may_be_anothers_is_not_cancelled(house: AskingHouse) -> None:
    [found] = _lost(house, "ann")
    found.ready_at += 1200
    house.pass_time(60)
    house.send_waves()
    with house.house.db.write() as conn:
        conn.execute(batches.update(), {"status": "cancelling"})  # as last call does
    house.settle()
    assert found.cancel_at is None
    _assert_each_is_done_and_paid_once(house, 1)
