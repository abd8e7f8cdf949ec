"""The queue: one commit with the caller's rows, JSON only, legs of the dead given back once."""

import base64
import pickle

import pytest
import sqlalchemy as sa
from dbos._serialization import DefaultSerializer

from nightdesk.engine import slots
from nightdesk.engine.dispatch import LEG
from nightdesk.engine.safety import PickleRefused, refuse_pickle
from nightdesk.engine.takeover import broken_legs, forget_legs, take_over
from nightdesk.house import House
from nightdesk.intake import Submission, submit, submit_in
from nightdesk.store import tasks


def queued(house: House) -> list[str]:
    return [row.workflow_id for row in house.dispatcher.client.list_workflows(status="ENQUEUED", name=LEG)]


def claim(house: House, executor: str) -> None:
    """Every queued leg, as if the executor had claimed it."""
    table = "workflow_status" if house.db.is_sqlite else "dbos.workflow_status"
    with house.db.write() as conn:
        conn.execute(sa.text(f"UPDATE {table} SET status = 'PENDING', executor_id = :e"), {"e": executor})


def test_task_and_dispatch_are_one_commit(house: House) -> None:
    def submit_then_fail() -> None:
        with house.db.write() as conn:
            submit_in(house, conn, Submission("drill", {"name": "a"}), actor="test")
            raise RuntimeError("the caller's own work failed")

    with pytest.raises(RuntimeError):
        submit_then_fail()
    with house.db.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(tasks)).scalar_one() == 0
    assert queued(house) == []
    receipt = submit(house, Submission("drill", {"name": "a"}))
    assert queued(house) == [f"{receipt.id}:1"]


def test_legs_of_dead_workers_are_given_back_and_those_of_the_living_are_not(house: House) -> None:
    own = slots.acquire(house.db, 15)
    lost = submit(house, Submission("drill", {"name": "lost"})).id
    claim(house, "w9.1")
    kept = submit(house, Submission("drill", {"name": "kept"})).id
    with house.db.write() as conn:
        table = "workflow_status" if house.db.is_sqlite else "dbos.workflow_status"
        update = f"UPDATE {table} SET status = 'PENDING', executor_id = :e WHERE workflow_uuid = :w"
        conn.execute(sa.text(update), {"e": own.executor_id, "w": f"{kept}:1"})
    client = house.dispatcher.client
    assert take_over(house.db, client, own, trust_leases=True) == 1
    assert queued(house) == [f"{lost}:1"]
    assert take_over(house.db, client, own, trust_leases=True) == 0


def test_only_the_first_of_the_living_gives_legs_back(house: House) -> None:
    slots.acquire(house.db, 15)
    second = slots.acquire(house.db, 15)
    submit(house, Submission("drill", {"name": "lost"}))
    claim(house, "w9.1")
    assert take_over(house.db, house.dispatcher.client, second, trust_leases=True) == 0


def test_legs_that_broke_off_are_found_and_those_long_ended_forgotten(house: House) -> None:
    task = submit(house, Submission("drill", {"name": "a"})).id
    client = house.dispatcher.client
    client.cancel_workflow(f"{task}:1")
    assert broken_legs(client) == [(task, 1)]
    assert forget_legs(client, "2000-01-01T00:00:00+00:00", 10) == 0
    assert forget_legs(client, "2999-01-01T00:00:00+00:00", 10) == 1
    assert broken_legs(client) == []


def test_a_row_labelled_as_pickle_is_refused_and_not_read() -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (exec, ("raise SystemExit('the pickle was read')",))

    refuse_pickle()
    row = base64.b64encode(pickle.dumps(Trap())).decode()
    with pytest.raises(PickleRefused):
        DefaultSerializer().deserialize(row)
