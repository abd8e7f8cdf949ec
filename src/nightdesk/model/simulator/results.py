"""The lines of a result file, sent bit by bit, with the faults that such files can have."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Literal

from starlette.responses import StreamingResponse

from nightdesk.canonical import Json, digest
from nightdesk.model.simulator.batches import Batch
from nightdesk.model.simulator.model import Model
from nightdesk.model.simulator.refusals import Refusal

Ending = Literal["whole", "cut", "broken"]
Line = Callable[[int], dict[str, Json]]
_LINES_PER_PIECE = 50


class BrokenOff(Exception):
    """Ends a connection in the middle of an answer."""


def results(model: Model, batch: Batch, indexes: list[int], line: Line) -> StreamingResponse:
    """The lines of these items, made while they are sent."""
    provider = batch.dialect.provider
    if model.faults.take("results_gone", provider):
        raise Refusal(404, "The results are not there any more.")
    if model.behaviour.shuffled:
        indexes = sorted(indexes, key=lambda index: digest("order", batch.items[index].name))
    lines = _lines(model, provider, indexes, line)
    slow = model.faults.take("results_slow", provider)
    body = _body(lines, len(indexes), slow.seconds if slow else 0.0, _ending(model, provider))
    return StreamingResponse(body, media_type="application/x-jsonl")


def _lines(model: Model, provider: str, indexes: list[int], line: Line) -> Iterator[dict[str, Json]]:
    if indexes and model.faults.take("results_missing", provider):
        indexes = indexes[1:]
    if indexes and model.faults.take("results_duplicate", provider):
        indexes = [indexes[0], *indexes]
    stranger = bool(indexes) and model.faults.take("results_unknown", provider) is not None
    return _made(indexes, line, stranger)


def _made(indexes: list[int], line: Line, stranger: bool) -> Iterator[dict[str, Json]]:
    if stranger:
        known = line(indexes[0])
        name = "custom_id" if "custom_id" in known else "key"
        yield {**known, name: "unknown-to-anyone"}
    for index in indexes:
        yield line(index)


def _ending(model: Model, provider: str) -> Ending:
    if model.faults.take("results_broken", provider):
        return "broken"
    return "cut" if model.faults.take("results_cut", provider) else "whole"


async def _body(lines: Iterator[dict[str, Json]], count: int, seconds: float, ending: Ending) -> AsyncIterator[bytes]:
    """With another ending than `whole` it stops in its middle: as if that were all, or with the connection."""
    waiting: list[str] = []
    for number, line in enumerate(lines):
        text = json.dumps(line, ensure_ascii=False) + "\n"
        if ending != "whole" and number == count // 2:
            yield "".join([*waiting, text[: len(text) // 2]]).encode()
            if ending == "broken":
                raise BrokenOff
            return
        waiting.append(text)
        if seconds or len(waiting) == _LINES_PER_PIECE:
            yield "".join(waiting).encode()
            waiting.clear()
            await asyncio.sleep(seconds / count)
    yield "".join(waiting).encode()
