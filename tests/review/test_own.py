"""Gates that are functions of the user: whatever they answer is a verdict."""

import asyncio
import threading
from typing import Any

import pytest

from nightdesk.errors import RetryLater
from nightdesk.review.own import own
from nightdesk.work import Verdict

ANSWERS: list[tuple[Any, bool, list[str]]] = [
    (None, True, []),
    (True, True, []),
    (False, False, []),
    ("", True, []),
    ("not ours", False, ["not ours"]),
    ([], True, []),
    (["one", 2], False, ["one", "2"]),
    (("one",), False, ["one"]),
    (Verdict(False, 0.4, 0.7, ["too low"]), False, ["too low"]),
    (Verdict(False, evidence="a bare text"), False, ["a bare text"]),
    (Verdict(True, 1), True, []),
    (42, False, ["the check broke: TypeError: it answered with int, not with True, False, text, a list of it"]),
    (Verdict(True, object()), False, ["the check broke: PydanticSerializationError"]),
]


@pytest.mark.parametrize(("answer", "passed", "evidence"), ANSWERS)
@pytest.mark.parametrize("is_async", [False, True])
def test_answers(answer: Any, passed: bool, evidence: list[str], is_async: bool) -> None:
    def plain(draft: object, order: object) -> Any:
        return answer

    async def awaited(draft: object, order: object) -> Any:
        return answer

    verdict = asyncio.run(own(awaited if is_async else plain, {}, {}))
    assert verdict.passed is passed
    assert [found[: len(text)] for found, text in zip(verdict.evidence, evidence, strict=True)] == evidence


def test_a_plain_function_may_block_since_it_has_a_thread_of_its_own() -> None:
    def blocking(draft: object, order: object) -> str:
        return "" if threading.current_thread() is not threading.main_thread() else "in the way"

    assert asyncio.run(own(blocking, {}, {})).passed


@pytest.mark.parametrize("error", [ConnectionError("away"), TimeoutError(), RetryLater("later")])
def test_what_may_be_better_soon_is_no_verdict(error: Exception) -> None:
    def shy(draft: object, order: object) -> None:
        raise error

    with pytest.raises(type(error)):
        asyncio.run(own(shy, {}, {}))
