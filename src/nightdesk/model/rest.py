"""What a call asks of the leg that it is made in: to wait, to end, to be left in peace while it is under way."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import NoReturn, Protocol


class Rest(Protocol):
    """The work room gives each leg one."""

    async def wait(
        self, kind: str, until: datetime | None = None, *, call: str | None = None, why: str = "parked"
    ) -> NoReturn:
        """End the leg once everything in it has come to rest; the task is a row until then. Never returns."""

    async def stop(self, error: BaseException) -> NoReturn:
        """End the leg now, as failed with this error. Never returns."""

    def busy(self) -> AbstractContextManager[None]:
        """Something is under way that the leg must not end under."""

    def step(self) -> str:
        """The step that this is called in, with its occurrence (`draft#1`); empty outside of steps."""


def step_name(step: str, occurrence: int) -> str:
    """How a call's row names the step that asked."""
    return f"{step}#{occurrence}"
