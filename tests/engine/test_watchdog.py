"""The watchdog's verdicts: on a lost slot, on a worker that does not move, on a database that is away."""

import pytest
import sqlalchemy as sa

from nightdesk.engine import slots
from nightdesk.engine.watchdog import SLOT_LOST, STALLED, Heartbeat, Watchdog
from nightdesk.house import House
from nightdesk.store import open_database


class Ended(Exception):
    pass


def watchdog(house: House, slot: slots.Slot, stalled_for: float = 0) -> Watchdog:
    def end(code: int, why: str) -> None:
        raise Ended(code, why)

    stalls = {"the store": lambda: stalled_for}
    return Watchdog(house.db, slot, lease_seconds=15, stall_seconds=60, stalls=stalls, end=end)


def test_a_worker_that_moves_and_holds_its_slot_lives(house: House) -> None:
    dog = watchdog(house, slots.acquire(house.db, 15), stalled_for=59)
    dog.check()
    assert not dog.trusts_leases()  # it has only just begun to renew


def test_a_lost_slot_ends_the_process(house: House) -> None:
    slot = slots.acquire(house.db, 15)
    slots.release(house.db, slot)
    with pytest.raises(Ended) as ended:
        watchdog(house, slot).check()
    assert ended.value.args[0] == SLOT_LOST


def test_standing_still_while_the_database_answers_ends_the_process(house: House) -> None:
    with pytest.raises(Ended) as ended:
        watchdog(house, slots.acquire(house.db, 15), stalled_for=61).check()
    assert ended.value.args == (STALLED, "the store has not moved for 61 s although the database answers")


def test_a_database_that_is_away_is_waited_for(house: House) -> None:
    away = open_database("postgresql://localhost:1/nowhere", patience_seconds=1)
    dog = Watchdog(
        away, slots.acquire(house.db, 15), lease_seconds=15, stall_seconds=60, stalls={"the store": lambda: 1000.0}
    )
    with pytest.raises(sa.exc.OperationalError):
        dog.check()  # and does not end the process
    assert not dog.trusts_leases()


def test_a_heartbeat_that_hangs_shows() -> None:
    seen: list[float] = []
    heart = Heartbeat("probe", lambda: seen.append(heart.stalled_for()))
    assert heart.stalled_for() == 0
    heart._timed()
    assert seen[0] > 0
    assert heart.stalled_for() == 0
