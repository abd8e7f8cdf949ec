"""What a provider refuses for its policy is for a person, at once; code that knows what to do then may go on."""

from typing import Any

import openai

from nightdesk.work import Desk
from tests.model.asking import GPT, AskingHouse
from tests.model.questions import agent


def test_a_refusal_for_policy_goes_to_the_desk_without_a_retry(asking: AskingHouse) -> None:
    asking.fault("status", provider="openai", status=400, code="content_policy_violation")
    task = asking.ask(agent("Write about NAME.", GPT), lane="live")
    assert task["state"] == "review"
    assert "refuses for its policy" in task["error"]["message"]
    assert len(asking.calls()) == 1


def test_code_that_expects_a_refusal_goes_on(asking: AskingHouse) -> None:
    async def body(order: Any, desk: Desk) -> str:
        async with desk.http_client() as http:
            client = openai.AsyncOpenAI(http_client=http)
            try:
                await client.responses.create(model="gpt-5-mini", input="Something harmless.")
            except openai.BadRequestError:
                return "Nothing could be written."
        return "It was written."

    asking.fault("status", provider="openai", status=400, code="content_policy_violation")
    task = asking.ask(body, lane="live")
    assert (task["state"], task["result"]) == ("done", "Nothing could be written.")
