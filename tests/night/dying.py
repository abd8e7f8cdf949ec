"""A process that looks after the nights and dies where it is told to, forked from one that has everything loaded."""

import multiprocessing
import os
from datetime import datetime
from pathlib import Path
from typing import Any

_MODULES = ["nightdesk.night.keeping", "tests.night.dying", "dbos"]


def context() -> Any:
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(_MODULES)
    return forking


def look(home: Path, at: datetime, failpoint: str) -> None:
    """One look after the nights of this house at this moment. The answer is the exit code: 0, or a signal."""
    from nightdesk.clock import SetClock
    from nightdesk.house import open_house
    from nightdesk.night.keeping import keep

    house = open_house(home, clock=SetClock(at))
    os.environ["NIGHTDESK_FAILPOINT"] = failpoint
    keep(house)
    house.close()


def begin(home: Path, at: datetime, until: str, failpoint: str) -> None:
    """The same for who begins a night by hand."""
    from nightdesk.clock import SetClock
    from nightdesk.house import open_house
    from nightdesk.night.by_hand import begin_now

    house = open_house(home, clock=SetClock(at))
    os.environ["NIGHTDESK_FAILPOINT"] = failpoint
    begin_now(house, until, {}, actor="test")
    house.close()
