"""How soon the command line is there."""

import statistics
import subprocess
import time

from bench.figures import Figure, at_most
from tests.support.processes import PROGRAM

_RUNS = 10


def help_page() -> Figure:
    return Figure("ms for `nightdesk --help`", statistics.median(_once() for _ in range(_RUNS)) * 1000, at_most(300))


def _once() -> float:
    began = time.monotonic()
    subprocess.run([PROGRAM, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began
