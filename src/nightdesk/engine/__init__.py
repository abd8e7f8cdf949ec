"""The only door to DBOS: putting legs on its queue, running them, cron, and taking over from dead workers.

Promises: a leg put on the queue commits or vanishes with the caller's transaction; it is started at least
once, and goes on elsewhere when its worker dies. Nothing stored is pickled, and nothing pickled is read.

Never: knows what a task is. It gets a function to call with (task id, leg number), and calls it.
`engine.runtime` is not imported here: only a worker becomes an executor.
"""

from nightdesk.engine.dispatch import Dispatcher, prepare
from nightdesk.engine.slots import Slot, workers, workers_in

__all__ = ["Dispatcher", "Slot", "prepare", "workers", "workers_in"]
