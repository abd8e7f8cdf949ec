"""Bodies of playbooks that ask models, with the official SDK or with an agent, as their users write them."""

from typing import Any

from anthropic import AsyncAnthropic
from pydantic_ai import Agent

from nightdesk.work import Desk
from tests.support.hand import Body


def asks(*texts: str, model: str = "claude-haiku-4-5", most: int = 1000, **more: Any) -> Body:
    """One question after the other; `NAME` in a text is the task's own. The answer is the last one's text."""

    async def body(order: Any, desk: Desk) -> Any:
        said = ""
        async with desk.http_client() as http:
            client = AsyncAnthropic(http_client=http, timeout=None)
            for text in texts:
                messages: Any = [{"role": "user", "content": text.replace("NAME", order.name)}]
                message = await client.messages.create(model=model, max_tokens=most, messages=messages, **more)
                said = "".join(block.text for block in message.content if block.type == "text")
        return said

    return body


def agent(text: str, name: str | None = None) -> Body:
    """A Pydantic AI agent with the playbook's model, or the one that is named."""

    async def body(order: Any, desk: Desk) -> Any:
        return (await Agent(desk.model(name)).run(text.replace("NAME", order.name))).output

    return body
