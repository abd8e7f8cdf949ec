"""The drill's code. Each step leaves a line in NIGHTDESK_DRILL_LOG, so that a test can count what really ran."""

import asyncio
import os
from typing import Any

from nightdesk.errors import AskPerson, RetryLater
from nightdesk.work.context import current_step


async def drill(order: Any, desk: Any) -> dict[str, int]:
    for number in range(1, order.steps + 1):
        await desk.step(f"step-{number}", _step, order, number)
    return {"steps": order.steps}


async def _step(order: Any, number: int) -> dict[str, int]:
    attempt = current_step().attempt
    _log(f"{order.name} {number} {attempt}\n")
    await asyncio.sleep(order.step_ms / 1000)
    if number == order.fail_at and attempt <= order.fail_times:
        await _fail(order.fail)
    return {"step": number, "attempt": attempt}


def _log(line: str) -> None:
    """One write in append mode: lines of many processes do not mix, and none is lost when this one is killed."""
    path = os.environ.get("NIGHTDESK_DRILL_LOG")
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


async def _fail(kind: str | None) -> None:
    match kind:
        case "transient":
            raise RetryLater("The drill was told to fail for a while.")
        case "bug":
            raise RuntimeError("The drill was told to have a bug.")
        case "person":
            raise AskPerson("The drill was told to need a person.")
        case "exit":
            os._exit(1)
        case "hang":
            await asyncio.Event().wait()
