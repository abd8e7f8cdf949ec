"""Workers that die in the middle of a leg, as by kill -9 but within the test's own process."""

import contextlib
from typing import Any

from anthropic import AsyncAnthropic

from nightdesk.work import Desk
from tests.model.asking import AskingHouse

MODEL = "claude-haiku-4-5"


class Killed(BaseException):
    """Raised by a playbook's code, it ends the leg as its worker's death does: nothing is written about it."""


def settle_through_deaths(asking: AskingHouse) -> int:
    """Each time that a worker dies, another takes the leg over. The answer is how many died."""
    for deaths in range(20):
        with contextlib.suppress(Killed):
            asking.settle()
            return deaths
    raise AssertionError("they die without end")


async def say(desk: Desk, text: str) -> str:
    async with desk.http_client() as http:
        messages: Any = [{"role": "user", "content": text}]
        message = await AsyncAnthropic(http_client=http).messages.create(model=MODEL, max_tokens=100, messages=messages)
        return "".join(block.text for block in message.content if block.type == "text")
