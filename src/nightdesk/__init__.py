"""Nightdesk: queue work for AI agents by day, have it done overnight, review it in the morning.

These are the public names; everything below them is free to change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nightdesk.house import House as House, open_house as open_house
    from nightdesk.intake import Receipt as Receipt, Submission as Submission, submit as submit
    from nightdesk.playbook import Playbook as Playbook, playbook as playbook
    from nightdesk.work import (
        AskPerson as AskPerson,
        Desk as Desk,
        GiveUp as GiveUp,
        RetryLater as RetryLater,
        Verdict as Verdict,
        current_step as current_step,
    )

# Each is loaded when it is first asked for, so that the command line opens at once.
_HOME_OF = {
    "House": "nightdesk.house",
    "open_house": "nightdesk.house",
    "Receipt": "nightdesk.intake",
    "Submission": "nightdesk.intake",
    "submit": "nightdesk.intake",
    "Playbook": "nightdesk.playbook",
    "AskPerson": "nightdesk.work",
    "Desk": "nightdesk.work",
    "GiveUp": "nightdesk.work",
    "RetryLater": "nightdesk.work",
    "Verdict": "nightdesk.work",
    "current_step": "nightdesk.work",
}


def __getattr__(name: str) -> Any:
    if name == "playbook":  # the room can be called: it is its own decorator
        return import_module("nightdesk.playbook")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'nightdesk' has no attribute {name!r}")
