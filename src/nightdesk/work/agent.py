"""A playbook without code: its instructions and its input go to its model, and what comes back is its output."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nightdesk.canonical import canonical, jsonable
from nightdesk.errors import AskPerson
from nightdesk.playbook import Playbook
from nightdesk.work.desk import Desk

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage

_MOST_REQUESTS = 2


async def follow_instructions(playbook: Playbook, order: Any, desk: Desk) -> Any:
    """An answer of another form than the output is sent back to the model once; then a person must look."""
    from pydantic_ai import UsageLimits, capture_run_messages
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded

    given = jsonable(order)
    limits = UsageLimits(request_limit=_MOST_REQUESTS)
    with capture_run_messages() as messages:
        try:
            run = await _agent(playbook, given, desk).run(
                f"The input, as JSON:\n{canonical(given)}", usage_limits=limits
            )
        except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
            raise AskPerson(f"The model did not give what the playbook asks for: {_why(error, messages)}.") from error
    return run.output if playbook.output else {"text": run.output}


def can_follow(playbook: Playbook) -> bool:
    return bool(playbook.asking.use and playbook.definition.get("instructions"))


def _agent(playbook: Playbook, given: Any, desk: Desk) -> "Agent[None, Any]":
    from pydantic_ai import Agent, ModelRetry

    agent: Agent[None, Any] = Agent(
        desk.model(),
        output_type=playbook.output or str,
        instructions=str(playbook.definition["instructions"]),
        retries={"output": _MOST_REQUESTS - 1},
    )

    @agent.output_validator
    def is_of_this_task(answer: Any) -> Any:
        if wrong := playbook.mixed_up(given, jsonable(answer)):
            raise ModelRetry(wrong)
        return answer

    return agent


def _why(error: Exception, messages: "Sequence[ModelMessage]") -> str:
    """What was wrong with the last answer. At the limit of requests the error itself does not say it."""
    if isinstance(error.__cause__, ValidationError):
        return _listed(error.__cause__.errors())
    if error.__cause__ is not None:
        return str(error.__cause__)
    told: list[Any] = [part for message in messages for part in message.parts if _sends_back(part)]
    return _listed(told[-1].content) if told else str(error)


def _sends_back(part: Any) -> bool:
    return part.part_kind == "retry-feedback" or getattr(part, "outcome", "") == "retried"


def _listed(faults: Any) -> str:
    if not isinstance(faults, list):
        return str(faults)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in faults)
