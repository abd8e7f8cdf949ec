"""One thread at a time works on a batch, or it would be sent twice."""

from typing import Any

import pytest
import sqlalchemy as sa

from nightdesk.model.holding import Hold, HoldLost, claim, kept
from nightdesk.model.waves import form_waves
from nightdesk.store import batches
from tests.model.asking import AskingHouse
from tests.model.questions import asks
from tests.support.processes import wait_until


@pytest.fixture
def house(asking_anywhere: AskingHouse) -> AskingHouse:
    """With one wave that is about to leave."""
    house = asking_anywhere
    house.set(waves={"canary": False}, worker={"lease_seconds": 3})
    house.have(asks("A question."), lane="batch")
    house.submit("job", {"name": "a"})
    house.run_all()
    house.pass_time(10)
    form_waves(house.room, lambda conn, task_ids: None)
    return house


def _claimed(house: AskingHouse, holder: str = "w1.1") -> Hold | None:
    return claim(house.room, holder, ("intent",))


def _row(house: AskingHouse) -> Any:
    with house.house.db.read() as conn:
        return conn.execute(sa.select(batches)).one()


def test_what_is_held_is_held_by_nobody_else(house: AskingHouse) -> None:
    assert _claimed(house) is not None
    assert [_claimed(house), _claimed(house, "w2.1")] == [None, None]


@pytest.mark.parametrize("holder", ["w1.1", "w2.1"])
def test_who_was_too_slow_has_lost_it_even_to_a_thread_of_the_same_worker(house: AskingHouse, holder: str) -> None:
    slow = _claimed(house)
    house.pass_time(3)
    quick = _claimed(house, holder)
    assert slow is not None
    assert quick is not None
    with pytest.raises(HoldLost):
        slow.mark(attempt=1)
    slow.release(house.clock.now(), status="open", provider_id="made by the slow one")
    assert (_row(house).status, _row(house).attempt, _row(house).holder) == ("intent", 0, quick.holder)
    quick.mark(attempt=1)
    assert _row(house).attempt == 1


def test_what_is_kept_is_held_for_as_long_as_it_takes(house: AskingHouse) -> None:
    held = _claimed(house)
    assert held is not None
    with kept(held):
        until = _row(house).held_until
        house.pass_time(2.9)
        wait_until(lambda: _row(house).held_until > until, 20, "the hold was renewed")
        house.pass_time(2.9)
        assert _claimed(house) is None
    house.pass_time(3)
    assert _claimed(house) is not None
