"""What code inside a step can know about the step, however deep in the call stack it is."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepInfo:
    name: str
    occurrence: int
    attempt: int


step_in_progress: ContextVar[StepInfo | None] = ContextVar("nightdesk_step", default=None)


def current_step() -> StepInfo:
    """The step that is running here."""
    info = step_in_progress.get()
    if info is None:
        raise RuntimeError("No step is running here. Call this inside a function given to desk.step().")
    return info
