"""A night tried out: the house's own tasks, playbooks and settings, with simulated providers, in fast time.

Promises: the house itself is only read; nothing is asked of a real provider; the clock jumps from one event to the
next, so that hours pass in seconds. Never: keeps a playbook from doing what its code does. A step that writes
something somewhere does so in a rehearsal too.
"""

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from nightdesk.house import House
from nightdesk.model.simulator import Behaviour, Simulator, running
from nightdesk.rehearsal.clock import JumpingClock
from nightdesk.rehearsal.copying import copied
from nightdesk.rehearsal.night import Night
from nightdesk.rehearsal.outcome import Outcome, outcome_of
from nightdesk.rehearsal.plan import Plan, read_fault, read_night
from nightdesk.rehearsal.room import SimulatedRoom

__all__ = ["Outcome", "Plan", "read_fault", "read_night", "rehearse"]

Tell = Callable[[int, int, datetime], None]


def rehearse(house: House, plan: Plan, folder: Path, tell: Tell) -> Outcome:
    """Try the night out, in a database in this empty folder. `tell` hears how many of how many tasks have ended, and
    how late it is."""
    began = time.monotonic()
    simulator = Simulator(Behaviour(batch_seconds=plan.batch_seconds))
    clock = JumpingClock(plan.start, simulator)
    with running(simulator) as served, copied(house, plan, folder, clock, served.url) as copy:
        for fault in plan.faults:
            simulator.faults.add(fault)
        room = SimulatedRoom(copy, clock, served, plan.latency)
        Night(copy, clock, room, plan).run(tell)
        return outcome_of(copy, plan, simulator, time.monotonic() - began)
