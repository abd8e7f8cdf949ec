"""How a task runs: its states, its legs, its journal, its failures and its end.

Promises: every change of state is one function, one transaction, one event row. A step that is complete
is never run again. A task that waits is a row: no memory, no slot. What fails is retried, laid before a
person, or kept as a dead letter with everything needed to replay it. A worker that lost a task finds its
writes refused.

Never: talks to DBOS or decides what a playbook does; it never guesses what a step did.
"""

from nightdesk.errors import AskPerson, GiveUp, RetryLater
from nightdesk.work.context import StepInfo, current_step
from nightdesk.work.desk import Desk
from nightdesk.work.draft import Verdict

__all__ = ["AskPerson", "Desk", "GiveUp", "RetryLater", "StepInfo", "Verdict", "current_step"]
