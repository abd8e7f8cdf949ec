"""A whole Anthropic message, told as the events of a streamed one."""

import json
from collections.abc import Iterator

from nightdesk.canonical import Json
from nightdesk.model.providers.wire import objects

# What is told at the end of a message, and empty at its beginning.
_ENDING = ("stop_reason", "stop_sequence", "stop_details", "container")
# The SDKs gather the input of these from pieces of JSON; any other block is told whole at its start.
_CALLS = {"tool_use", "server_tool_use", "mcp_tool_use"}


def events_of(message: dict[str, Json]) -> Iterator[dict[str, Json]]:
    usage = message.get("usage") or {}
    endings = {key: message[key] for key in _ENDING if key in message}
    start = {**message, **dict.fromkeys(endings), "content": [], "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(objects(message.get("content"))):
        yield {"type": "content_block_start", "index": index, "content_block": _opening(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield _message_delta(message, endings, usage)
    yield {"type": "message_stop"}


def _message_delta(message: dict[str, Json], endings: dict[str, Json], usage: Json) -> dict[str, Json]:
    extra = {key: message[key] for key in ("context_management",) if message.get(key) is not None}
    return {"type": "message_delta", "delta": endings, "usage": usage, **extra}


def _opening(block: dict[str, Json]) -> dict[str, Json]:
    match block.get("type"):
        case "text":
            citations: dict[str, Json] = {"citations": []} if block.get("citations") else {}
            return {**block, "text": "", **citations}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case kind if kind in _CALLS:
            return {**block, "input": {}}
    return block


def _deltas(block: dict[str, Json]) -> Iterator[dict[str, Json]]:
    match block.get("type"):
        case "text":
            yield from ({"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ())
            yield {"type": "text_delta", "text": block.get("text") or ""}
        case "thinking":
            if block.get("thinking"):
                yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block.get("signature") or ""}
        case kind if kind in _CALLS:
            yield {"type": "input_json_delta", "partial_json": json.dumps(block.get("input") or {})}
