"""Work that makes work: a task hands in others, which know it as their parent, and may wait for what comes of them.

How a task is handed in is not known here; it is given as a function. What a child is called is computed from its
parent, the parent's version and the place or key of the emission, so that a repeat finds it there already.
"""

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from nightdesk.canonical import Json
from nightdesk.errors import DiskFull, NightdeskError
from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.watch.events import record
from nightdesk.work.states import Task

# (house, transaction, parent, playbook, input, key) -> the child's id
Emit = Callable[[House, sa.Connection, Task, str, Json, str], str]

_LONGEST_CAUSE = 2_000


def keyed(task: Task, key: str) -> str:
    """The child's key where the playbook states one: the same in every attempt, another in every version."""
    return f"{task['id']}/{task['version']}:{key}"


def placed(task: Task, place: int) -> str:
    """The child's key where it is known by its place among the emissions."""
    return f"{task['id']}/{task['version']}/{place}"


def stated_key(key: str) -> str | None:
    """The key that the emission stated, or None if the child is known by its place."""
    return key.partition(":")[2] or None


def emit_then(
    emit: Emit, house: House, conn: sa.Connection, at: datetime, task: Task, playbook: Playbook, result: Json
) -> list[str]:
    """Hand the result on to each playbook that is stated to come `then`; the answer is what could not be handed on.

    To be called in the transaction in which the result counts; a repeat hands in nothing new.
    """
    return [fault for name in playbook.then if (fault := _hand_on(emit, house, conn, at, task, name, result))]


def _hand_on(
    emit: Emit, house: House, conn: sa.Connection, at: datetime, task: Task, name: str, result: Json
) -> str | None:
    try:
        with conn.begin_nested():
            emit(house, conn, task, name, result, keyed(task, f"then {name}"))
    except DiskFull:
        raise  # it fits, and may be tried again
    except NightdeskError as error:
        fault = f"the result could not be handed on to {name}: {error.problem}"[:_LONGEST_CAUSE]
        about = {"task_id": task["id"], "version": task["version"], "detail": {"playbook": name}}
        record(conn, at, "emit", cause=fault, actor="worker", **about)
        return fault
    return None
