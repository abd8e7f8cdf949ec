"""Gates that are functions of the user: what they may answer, and what becomes of one that breaks."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from nightdesk.canonical import jsonable
from nightdesk.work.draft import Verdict
from nightdesk.work.failure import classify, message_of


async def own(check: Callable[[Any, Any], Any], draft: Any, order: Any) -> Verdict:
    """The function's answer as a verdict: True or nothing passes; False, a text or a list of texts does not; a Verdict
    is one. A function that breaks lets nothing through: a person looks, and sees how it broke."""
    try:
        is_async = inspect.iscoroutinefunction(check)
        answer = check(draft, order) if is_async else await asyncio.to_thread(check, draft, order)
        return _as_verdict(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:
        if classify(error) == "transient":
            raise
        broke = f"the check broke: {type(error).__name__}: {message_of(error)}"
        return Verdict(False, None, "a check that works", [broke])


def _as_verdict(answer: Any) -> Verdict:
    if isinstance(answer, Verdict):
        return Verdict(bool(answer.passed), jsonable(answer.value), jsonable(answer.threshold), _texts(answer.evidence))
    if answer is None or isinstance(answer, bool):
        return Verdict(answer is not False)
    if isinstance(answer, str):
        return Verdict(not answer, evidence=[answer] if answer else [])
    if isinstance(answer, list | tuple):
        return Verdict(not answer, len(answer), 0, _texts(answer))
    raise TypeError(f"it answered with {type(answer).__name__}, not with True, False, text, a list of it, or a Verdict")


def _texts(evidence: Any) -> list[str]:
    return [str(item) for item in ([evidence] if isinstance(evidence, str) else evidence)]
