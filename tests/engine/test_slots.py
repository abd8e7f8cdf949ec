"""Slots: who holds one, who lost it, who is dead."""

import os
import subprocess
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from nightdesk.engine import slots
from nightdesk.house import House
from nightdesk.store import slots as table


def expire(house: House, name: str) -> None:
    with house.db.write() as conn:
        past = house.db.now(conn) - timedelta(seconds=1)
        conn.execute(table.update().where(table.c.name == name), {"expires_at": past})


def give_to_another_machine(house: House, slot: slots.Slot) -> slots.Slot:
    """As if a worker elsewhere held it: its process number says nothing here."""
    with house.db.write() as conn:
        conn.execute(table.update().where(table.c.name == slot.name), {"holder": "elsewhere:1"})
    return slots.Slot(slot.name, slot.epoch, "elsewhere:1")


def test_workers_get_slots_of_their_own_and_a_free_one_is_taken_again(house: House) -> None:
    first, second = slots.acquire(house.db, 15), slots.acquire(house.db, 15)
    assert (first.name, second.name) == ("w1", "w2")
    slots.release(house.db, first)
    again = slots.acquire(house.db, 15)
    assert (again.name, again.executor_id) == ("w1", "w1.2")
    assert not slots.renew(house.db, first, 15)
    assert slots.renew(house.db, again, 15)


def test_many_workers_that_start_at_once_never_share_a_slot(house: House) -> None:
    got: list[str] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        got.append(slots.acquire(house.db, 15).executor_id)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 8


def test_a_slot_whose_lease_ran_out_is_freed_only_where_leases_can_be_trusted(house: House) -> None:
    away = give_to_another_machine(house, slots.acquire(house.db, 15))
    expire(house, away.name)
    slots.free_dead(house.db, trust_leases=False)
    assert slots.renew(house.db, away, 15)  # it was only late
    expire(house, away.name)
    slots.free_dead(house.db, trust_leases=True)
    assert not slots.renew(house.db, away, 15)
    assert slots.live_executors(house.db) == []


def test_a_process_that_is_gone_from_this_machine_is_dead_at_once(house: House) -> None:
    slot = slots.acquire(house.db, 15)
    ended = subprocess.Popen(["true"])
    ended.wait()
    with house.db.write() as conn:
        holder = slot.holder.replace(f":{os.getpid()}", f":{ended.pid}")
        conn.execute(table.update().where(table.c.name == slot.name), {"holder": holder})
    slots.free_dead(house.db, trust_leases=False)
    assert slots.live_executors(house.db) == []


def test_the_schema_refuses_a_holder_without_a_lease(house: House) -> None:
    slot = slots.acquire(house.db, 15)
    with pytest.raises(sa.exc.IntegrityError), house.db.write() as conn:
        conn.execute(table.update().where(table.c.name == slot.name), {"expires_at": None})
