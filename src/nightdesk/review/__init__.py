"""How drafts are judged before a person sees them: gates, golden cases and launch tests.

Promises: a gate says pass or fail with the value, what it is held against, and evidence; the same draft gets the same
verdict. What costs money or time in a gate is journaled and paid like the rest of the task's work. A gate that cannot
look says so, and the draft goes to a person.

Never: changes a draft, asks an address that is not on the gate's list, or lets a draft through because a check broke.
"""

from nightdesk.review.gatekeeper import Gatekeeper
from nightdesk.review.laying import lay_on_desk

__all__ = ["Gatekeeper", "lay_on_desk"]
