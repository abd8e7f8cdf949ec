"""How work gets in: one door.

Promises: a task's id is computed from its playbook, tenant and key, so the same work submitted twice is one
task. Identity and input are fixed when `submit` returns, and the task and its dispatch are one commit.
Bad input is refused with every fault named, and nothing of it is stored.

Never: runs anything.
"""

from nightdesk.intake.emitting import emit_in
from nightdesk.intake.submit import Receipt, Submission, submit, submit_in

__all__ = ["Receipt", "Submission", "emit_in", "submit", "submit_in"]
