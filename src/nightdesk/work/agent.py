"""A playbook without code: its instructions and its input go to its model, and what comes back is its output."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import AskPerson
from nightdesk.playbook import Playbook
from nightdesk.work.desk import Desk
from nightdesk.work.draft import Check, Draft
from nightdesk.work.sent_back import SentBack

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage

_MOST_REQUESTS = 2


async def draft_by_instructions(playbook: Playbook, order: Any, desk: Desk, check: Check) -> Draft:
    """What fails its gates goes back to the model with what they found, as often as the playbook allows."""
    prompt = f"The input, as JSON:\n{_written(jsonable(order))}"
    if desk.sent_back is not None:
        prompt = f"{prompt}\n\n{_mended(desk.sent_back)}"
    draft = await _draft(playbook, order, desk, check, prompt)
    for _ in range(playbook.limits.redrafts):
        if draft.passed:
            break
        draft = await _draft(playbook, order, desk, check, f"{prompt}\n\n{_not_accepted(draft)}")
    return draft


def can_follow(playbook: Playbook) -> bool:
    return bool(playbook.asking.use and playbook.definition.get("instructions"))


async def _draft(playbook: Playbook, order: Any, desk: Desk, check: Check, prompt: str) -> Draft:
    answer = await _asked(playbook, jsonable(order), desk, prompt)
    return await check(playbook, order, playbook.check_output(answer), desk)


async def _asked(playbook: Playbook, given: Json, desk: Desk, prompt: str) -> Any:
    """An answer of another form than the output is sent back to the model once; then a person must look."""
    from pydantic_ai import UsageLimits, capture_run_messages
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded

    limits = UsageLimits(request_limit=_MOST_REQUESTS)
    with capture_run_messages() as messages:
        try:
            run = await _agent(playbook, given, desk).run(prompt, usage_limits=limits)
        except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
            raise AskPerson(f"The model did not give what the playbook asks for: {_why(error, messages)}.") from error
    return run.output if playbook.output else {"text": run.output}


def _agent(playbook: Playbook, given: Json, desk: Desk) -> "Agent[None, Any]":
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


def _mended(sent_back: SentBack) -> str:
    """What the person said stands last, where it weighs most."""
    said = f"A person has looked at it and sent it back. What they want mended:\n{sent_back.sentence}"
    if sent_back.draft is None:
        return said
    return f"The last draft, as JSON:\n{_written(sent_back.draft)}\n\n{said}\n\nGive the whole draft again."


def _not_accepted(draft: Draft) -> str:
    findings = "\n".join(f"- {verdict.sentence}" for verdict in draft.failing)
    return (
        f"Your last draft, as JSON:\n{_written(draft.payload)}\n\nIt was not accepted. Mend what these checks found, "
        f"change nothing else, and give the whole draft again:\n{findings}"
    )


def _written(value: Json) -> str:
    """Letters as they are, since escapes cost tokens and a model reads them badly."""
    return json.dumps(value, ensure_ascii=False)
