"""What a check of the doctor's hands back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nightdesk.errors import Invalid, NightdeskError


@dataclass(frozen=True)
class Finding:
    """`bad` keeps the house from working as promised; `warn` soon may."""

    check: str
    level: Literal["ok", "warn", "bad"]
    says: str
    mend: str = ""


def refused(check: str, error: NightdeskError) -> Iterator[Finding]:
    if isinstance(error, Invalid) and error.faults:
        for path, fault in error.faults:
            yield Finding(check, "bad", f"{path}: {fault}" if path else fault, error.next_step)
    else:
        yield Finding(check, "bad", error.problem, error.next_step)
