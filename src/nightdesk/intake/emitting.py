"""Work handed in by work: through the same door, for the same tenant, and in the parent's night while that is open."""

import sqlalchemy as sa

from nightdesk.canonical import Json, digest
from nightdesk.house import House
from nightdesk.intake.submit import LONGEST_NAME, Submission, submit_in
from nightdesk.store import tasks
from nightdesk.work.nightly import join_night, why_not_now
from nightdesk.work.states import Task, lock_task

# Once it was decided about, by day, nothing more of a task is the night's.
_AFTERWARDS = ("review", "approved", "releasing", "done")


def emit_in(house: House, conn: sa.Connection, parent: Task, playbook: str, values: Json, key: str) -> str:
    """The child's id. The same parent and key again hand in nothing new."""
    is_nightly = parent["until"] is not None and parent["state"] not in _AFTERWARDS
    submission = Submission(
        playbook,
        values,
        key=key if len(key) <= LONGEST_NAME else digest(key),
        tenant=parent["tenant"],
        # What an urgent task waits for is urgent.
        priority=min(parent["priority"], house.registry.get(playbook).priority),
    )
    actor = f"task:{parent['id']}"
    receipt = submit_in(house, conn, submission, actor=actor, parent_id=parent["id"], hold=is_nightly)
    if is_nightly and receipt.created:
        _join(house, conn, parent, receipt.id, actor)
    return receipt.id


def _join(house: House, conn: sa.Connection, parent: Task, child_id: str, actor: str) -> None:
    """Begin in the parent's night; if that is over by now, the child waits for the next as the parent does."""
    child, now = lock_task(conn, child_id), house.clock.now()
    assert child is not None
    night, until = parent["night"], parent["until"]
    if why_not_now(conn, now, parent):
        conn.execute(tasks.update().where(tasks.c.id == child_id), {"night": night, "until": min(until, now)})
    else:
        join_night(house, conn, now, child, night, until, cause="emitted in the night", actor=actor, dispatch=True)
