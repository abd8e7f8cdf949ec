"""What every refusal in the house has in common: one sentence, and the next step."""

from collections.abc import Sequence


class NightdeskError(Exception):
    """Something was refused. `problem` says what in one sentence, `next_step` what to do about it."""

    def __init__(self, problem: str, next_step: str = "") -> None:
        super().__init__(f"{problem} {next_step}".strip())
        self.problem = problem
        self.next_step = next_step


class Invalid(NightdeskError):
    """Input with one or more faults; each fault is a path and what is wrong there."""

    def __init__(self, problem: str, faults: Sequence[tuple[str, str]], next_step: str = "") -> None:
        listed = "; ".join(f"{path}: {fault}" if path else fault for path, fault in faults)
        super().__init__(f"{problem} ({listed})." if listed else problem, next_step)
        self.heading = problem
        self.faults = tuple(faults)


class Untimely(Invalid):
    """Nothing is wrong with the input but that it comes at this time."""


class NotFound(NightdeskError):
    """The named thing does not exist, or is not yours to see."""


class Conflict(NightdeskError):
    """The request contradicts what is already stored. `differs` names the paths that differ."""

    def __init__(self, problem: str, next_step: str = "", differs: Sequence[str] = ()) -> None:
        super().__init__(problem, next_step)
        self.differs = tuple(differs)


class Forbidden(NightdeskError):
    """Whoever asks has no right to it. `right` is the one that is missing."""

    def __init__(self, right: str, problem: str = "", next_step: str = "") -> None:
        super().__init__(
            problem or f"This needs the right to {right}.", next_step or "Ask somebody who has it, or an admin for it."
        )
        self.right = right


class TooMany(NightdeskError):
    """Nothing is wrong with it but that there were so many before. It may be tried again after `seconds`."""

    def __init__(self, problem: str, seconds: int) -> None:
        super().__init__(problem, f"Try again in {seconds} seconds.")
        self.seconds = seconds


class Unavailable(NightdeskError):
    """The database or the disk cannot take this now; nothing was stored, and it may be tried again."""


class DiskFull(Unavailable):
    """So little space is left that nothing more is accepted."""


class RetryLater(Exception):
    """The other side could not do it now. The task is tried again, three times by default."""


class AskPerson(Exception):
    """Only a person can decide this. The task goes to the desk with the reason; it is not retried."""


class GiveUp(Exception):
    """It will never work. The task becomes a dead letter at once."""


class Overrun(Exception):
    """A limit of time, of turns or of tokens was reached. What is done is kept."""


class LegLost(BaseException):
    """Another worker has this task, or it was cancelled: leave without a trace."""
