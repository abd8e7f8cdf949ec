"""Anthropic's Messages."""

import json
from typing import Any

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import Reply
from nightdesk.model.simulator.bodies import whole
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.dialect import Answered, event, missing, pieces, schema_of
from nightdesk.model.simulator.meter import Lane
from nightdesk.model.simulator.prompts import ANY, Part, Prompt, Tool, Ttl, as_part, joined, texts_of
from nightdesk.model.simulator.refusals import Refusal

_VERSIONS = ("2023-06-01", "2026-10-21")
_GONE_IN_2026 = ("temperature", "top_p", "top_k")
_REASONS = {"stop": "end_turn", "length": "max_tokens", "tools": "tool_use"}


class Messages:
    provider = "anthropic"
    endpoint = "/v1/messages"
    marks_cache = True

    def problem(self, body: dict[str, Json]) -> Refusal | None:
        if body.get("thread"):
            return Refusal(400, "thread: no conversations are held here.", "thread_unsupported_request")
        if name := missing(body, "model", "messages", "max_tokens"):
            return Refusal(400, f"{name}: Field required")
        if not isinstance(body["messages"], list) or not all(isinstance(item, dict) for item in body["messages"]):
            return Refusal(400, "messages: Input should be a valid list")
        return None

    def read(self, body: dict[str, Json]) -> Prompt:
        messages: list[dict[str, Any]] = body["messages"]
        mode, name = _choice(body)
        tools = [] if mode == "none" else _tools(body)
        return Prompt(
            model=body["model"],
            parts=_parts(body),
            asked=_asked(messages),
            material=_material(messages),
            tools=tools,
            forced=name if mode == "tool" else ANY if mode == "any" else "",
            schema=_schema(body),
            tool_turns=sum(1 for message in messages if message.get("role") == "assistant" and _calls(message)),
            most_tokens=whole(body, "max_tokens"),
        )

    def write(self, answered: Answered) -> dict[str, Json]:
        return {
            "id": f"msg_sim{answered.id[:20]}",
            "type": "message",
            "role": "assistant",
            "model": answered.body["model"],
            "content": _content(answered.reply, answered.id),
            "stop_reason": _REASONS[answered.reply.finish],
            "stop_sequence": None,
            "usage": _usage(answered.spent, answered.lane),
        }

    def stream(self, answer: dict[str, Json], body: dict[str, Json]) -> bytes:
        start = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(answer["content"]):
            events += _block_events(index, block)
        delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        usage = {key: value for key, value in answer["usage"].items() if isinstance(value, int)}
        events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
        return "".join(event(one, one["type"]) for one in events).encode()


def version_problem(version: str, body: dict[str, Json]) -> Refusal | None:
    """What is wrong with the request under this version of the API; None if nothing."""
    if version not in _VERSIONS:
        return Refusal(400, f"anthropic-version: {version or 'header is required'}")
    gone = next((name for name in _GONE_IN_2026 if name in body), "") if version == _VERSIONS[-1] else ""
    return Refusal(400, f"{gone}: Extra inputs are not permitted") if gone else None


def _choice(body: dict[str, Json]) -> tuple[str, str]:
    choice = body.get("tool_choice") or {}
    return choice.get("type", "auto"), choice.get("name", "")


def _tools(body: dict[str, Json]) -> list[Tool]:
    """Those that the caller runs; Anthropic's own have no schema."""
    offered = body.get("tools") or []
    return [Tool(tool["name"], tool["input_schema"]) for tool in offered if "input_schema" in tool]


def _schema(body: dict[str, Json]) -> Json:
    config = schema_of((body.get("output_config") or {}).get("format")) or schema_of(body.get("output_format"))
    return config.get("schema")


def _parts(body: dict[str, Json]) -> list[Part]:
    """In the order of the cache: tools, system, messages."""
    parts = [_part(tool) for tool in body.get("tools") or []]
    parts += _block_parts(body.get("system") or [])
    for message in body["messages"]:
        parts += _block_parts(message.get("content") or [])
    mark = _ttl(body.get("cache_control"))
    if mark and parts:
        parts[-1] = Part(parts[-1].text, mark)
    return parts


def _block_parts(content: Json) -> list[Part]:
    return [as_part(content)] if isinstance(content, str) else [_part(block) for block in content]


def _part(block: Json) -> Part:
    """A text counts by its own length; marks are not part of it, or moving one would change what is cached."""
    if not isinstance(block, dict):
        return as_part(block)
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return as_part(bare["text"] if set(bare) == {"type", "text"} else bare, _ttl(block.get("cache_control")))


def _ttl(control: Json) -> Ttl | None:
    if not isinstance(control, dict):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def _asked(messages: list[dict[str, Any]]) -> str:
    spoken = (joined(texts_of(message.get("content"), "text")) for message in reversed(messages) if _is_user(message))
    return next((text for text in spoken if text), "")


def _material(messages: list[dict[str, Any]]) -> str:
    blocks = [block for message in messages if _is_user(message) for block in _blocks(message, "tool_result")]
    return joined(joined(texts_of(block.get("content"), "text")) for block in blocks)


def _is_user(message: dict[str, Any]) -> bool:
    return message.get("role") == "user"


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return _blocks(message, "tool_use")


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


def _content(reply: Reply, id: str) -> list[Json]:
    calls = [
        {"type": "tool_use", "id": f"toolu_sim{id[:16]}{index}", "name": call.tool, "input": call.arguments}
        for index, call in enumerate(reply.calls)
    ]
    return [*([{"type": "text", "text": reply.text}] if reply.text else []), *calls]


def _usage(spent: Spent, lane: Lane) -> dict[str, Json]:
    return {
        "input_tokens": spent.plain,
        "cache_creation_input_tokens": spent.written,
        "cache_read_input_tokens": spent.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": spent.written_5m,
            "ephemeral_1h_input_tokens": spent.written_1h,
        },
        "output_tokens": spent.output,
        "service_tier": "batch" if lane == "batch" else "standard",
    }


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        empty = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    else:
        empty = {**block, "input": {}}
        written = json.dumps(block["input"], ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written)]
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
