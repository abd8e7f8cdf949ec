"""What a kind of work is: its typed input and output, when it runs, how often it may fail, and its code.

Promises: a playbook that loads is whole and valid; a wrong one is refused with file, line and the nearest right
word, all faults at once. What passes `check_input` is plain JSON that every database keeps exactly. `version`
changes with the definition and with the text of the file that holds its code.

Never: runs a task, touches the database, or guesses what a wrong definition meant.
"""

from nightdesk.playbook.decorator import playbook
from nightdesk.playbook.definition import Limits, Playbook, When
from nightdesk.playbook.registry import Registry, load_registry

__all__ = ["Limits", "Playbook", "Registry", "When", "load_registry", "playbook"]
