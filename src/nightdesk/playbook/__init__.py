"""What a kind of work is: its typed input and output, when it runs, how often it may fail, and its code.

Promises: a playbook that loads is whole and valid; a wrong one is refused with file, line and the nearest right
word, all faults at once. What passes `check_input` is plain JSON that every database keeps exactly. `version`
changes with the definition and with the text of the file that holds its code.

Never: runs a task, touches the database, or guesses what a wrong definition meant.
"""

import sys
from types import ModuleType
from typing import Unpack

from nightdesk.playbook.decorator import Decorated, Stated, playbook
from nightdesk.playbook.definition import Bar, Gate, Limits, Playbook, When
from nightdesk.playbook.registry import Registry, load_registry

__all__ = ["Bar", "Gate", "Limits", "Playbook", "Registry", "When", "load_registry", "playbook"]


class _Room(ModuleType):
    """`from nightdesk import playbook` finds this room, since it has the decorator's name; so it can be called."""

    def __call__(self, name: str, **stated: Unpack[Stated]) -> Decorated:
        return playbook(name, **stated)


sys.modules[__name__].__class__ = _Room
