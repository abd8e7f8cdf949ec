"""The line between a supervisor and its process: the process says that it is ready, and notices when it is alone."""

import contextlib
import os
import signal
import socket
import threading
import time

# A process that does not follow SIGTERM within this time is stuck, and nobody is left to end it.
_LAST_SECONDS = 15.0


class Lifeline:
    """The supervisor's end. The number of the other end is given to the process on its command line."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ready = False

    @property
    def descriptor(self) -> int:
        return self._theirs.fileno()

    def handed_over(self) -> None:
        """The process has started and holds its end; ours of it must go, or its death would not show."""
        self._theirs.close()

    def is_ready(self) -> bool:
        if not self._ready:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._ready = bool(self._ours.recv(1))
        return self._ready

    def close(self) -> None:
        self._ours.close()


def hold(descriptor: int) -> None:
    """In the process: say that it is ready, and end it like SIGTERM does should the supervisor vanish."""
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    line.sendall(b"1")
    threading.Thread(target=_end_when_alone, args=(line,), name="lifeline", daemon=True).start()


def _end_when_alone(line: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        line.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_LAST_SECONDS)
    os._exit(1)
