"""Taking over from workers that died: their started legs go back on the queue."""

from typing import TYPE_CHECKING

from nightdesk.engine import slots
from nightdesk.engine.dispatch import COMPATIBILITY, LEG, QUEUE
from nightdesk.engine.slots import Slot
from nightdesk.store import Database

if TYPE_CHECKING:
    from dbos import DBOSClient

_MOST_AT_ONCE = 1000


def take_over(db: Database, client: "DBOSClient", own: Slot, *, trust_leases: bool) -> int:
    """Give the legs of dead workers back to the queue; the answer is how many.

    Only the first of the live workers does it, so that no leg is given back twice. That DBOS forgets its own
    count of attempts when a workflow is resumed does no harm: ours is in `tasks`, and counts every start.
    """
    slots.free_dead(db, trust_leases=trust_leases)
    live = slots.live_executors(db)
    if not live or live[0] != own.executor_id:
        return 0
    started = client.list_workflows(status="PENDING", app_version=COMPATIBILITY, load_input=False, load_output=False)
    lost = [workflow for workflow in started if workflow.executor_id not in live]
    legs = [workflow.workflow_id for workflow in lost if workflow.name == LEG]
    ticks = [workflow.workflow_id for workflow in lost if workflow.name != LEG]
    if legs:
        client.resume_workflows(legs, queue_name=QUEUE)
    if ticks:
        client.resume_workflows(ticks)
    return len(legs)


def broken_legs(client: "DBOSClient") -> list[tuple[str, int]]:
    """Legs that the queue gave up on: an error in the engine itself, or too many recoveries."""
    states = ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
    found = client.list_workflows(
        status=states, name=LEG, limit=_MOST_AT_ONCE, sort_desc=True, load_input=False, load_output=False
    )
    return [_leg(workflow.workflow_id) for workflow in found]


def forget_legs(client: "DBOSClient", older_than: str, limit: int) -> int:
    """Delete the queue's rows of legs that ended before the moment; what matters of them is in `tasks` and `runs`."""
    done = client.list_workflows(
        status=["SUCCESS", "ERROR", "CANCELLED"],
        name=LEG,
        completed_before=older_than,
        limit=limit,
        load_input=False,
        load_output=False,
    )
    if done:
        client.delete_workflows([workflow.workflow_id for workflow in done])
    return len(done)


def _leg(workflow_id: str) -> tuple[str, int]:
    task_id, _, leg = workflow_id.rpartition(":")
    return task_id, int(leg)
