"""Where a test may have the process killed: before and after each step that must survive it."""

import os
import signal


def failpoint(place: str, provider: str = "") -> None:
    """Die here, as by kill -9, if NIGHTDESK_FAILPOINT names this place, with its provider: `batch-created:openai`."""
    if os.environ.get("NIGHTDESK_FAILPOINT") == (f"{place}:{provider}" if provider else place):
        os.kill(os.getpid(), signal.SIGKILL)
