"""Where a test may have the process killed: before and after each step that must survive it."""

import os
import signal


def failpoint(name: str) -> None:
    """Die here, as by kill -9, if NIGHTDESK_FAILPOINT names this place."""
    if os.environ.get("NIGHTDESK_FAILPOINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
