"""OpenAI's Responses."""

import json
from itertools import groupby
from typing import Any

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import Reply
from nightdesk.model.simulator.bodies import whole
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.dialect import Answered, event, missing, pieces, schema_of
from nightdesk.model.simulator.openai_chat import forced_tool
from nightdesk.model.simulator.prompts import Part, Prompt, Tool, as_part, joined, texts_of
from nightdesk.model.simulator.refusals import Refusal

Event = dict[str, Any]


class Responses:
    provider = "openai"
    endpoint = "/v1/responses"
    marks_cache = False

    def problem(self, body: dict[str, Json]) -> Refusal | None:
        if before := body.get("previous_response_id"):
            return Refusal(400, f"Previous response with id '{before}' not found.", "previous_response_not_found")
        if name := missing(body, "model", "input"):
            return Refusal(400, f"Missing required parameter: '{name}'.")
        items = body["input"]
        if not isinstance(items, str | list) or (isinstance(items, list) and not all(_is_object(i) for i in items)):
            return Refusal(400, "Invalid type for 'input': expected a string or an array of objects.")
        return None

    def read(self, body: dict[str, Json]) -> Prompt:
        items = _items(body)
        return Prompt(
            model=body["model"],
            parts=_parts(body, items),
            asked=next((text for item in reversed(items) if (text := _spoken(item))), ""),
            material=joined(_output(item) for item in items),
            tools=[] if body.get("tool_choice") == "none" else _tools(body),
            forced=forced_tool(body.get("tool_choice")),
            schema=_schema(body),
            tool_turns=sum(called for called, _ in groupby(items, key=_is_call)),
            most_tokens=whole(body, "max_output_tokens"),
        )

    def write(self, answered: Answered) -> dict[str, Json]:
        body, cut = answered.body, answered.reply.finish == "length"
        return {
            "id": f"resp_sim{answered.id[:20]}",
            "object": "response",
            "created_at": answered.created,
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "model": body["model"],
            "output": _written(answered.reply, answered.id),
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools", []),
            "text": body.get("text") or {"format": {"type": "text"}},
            "service_tier": "flex" if answered.lane == "flex" else "default",
            "usage": _usage(answered.spent),
        }

    def stream(self, answer: dict[str, Json], body: dict[str, Json]) -> bytes:
        begun = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[Event] = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
        for index, item in enumerate(answer["output"]):
            events += _item_events(index, item)
        events.append({"type": f"response.{answer['status']}", "response": answer})
        numbered = [{**one, "sequence_number": number} for number, one in enumerate(events)]
        return "".join(event(one, one["type"]) for one in numbered).encode()


def _is_object(item: Json) -> bool:
    return isinstance(item, dict)


def _items(body: dict[str, Json]) -> list[dict[str, Any]]:
    given = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _parts(body: dict[str, Json], items: list[dict[str, Any]]) -> list[Part]:
    parts = [as_part(tool) for tool in body.get("tools") or []]
    if body.get("instructions"):
        parts.append(as_part(body["instructions"]))
    for item in items:
        content = item.get("content")
        parts.append(as_part(content if isinstance(content, str) else item))
    return parts


def _spoken(item: dict[str, Any]) -> str:
    return joined(texts_of(item.get("content"), "input_text")) if item.get("role") == "user" else ""


def _output(item: dict[str, Any]) -> str:
    if item.get("type") != "function_call_output":
        return ""
    return joined(texts_of(item.get("output"), "input_text"))


def _is_call(item: dict[str, Any]) -> bool:
    """Calls that follow each other were made in one turn."""
    return item.get("type") == "function_call"


def _tools(body: dict[str, Json]) -> list[Tool]:
    offered = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    return [Tool(tool["name"], schema_of(tool.get("parameters"))) for tool in offered]


def _schema(body: dict[str, Json]) -> Json:
    wanted = schema_of((body.get("text") or {}).get("format"))
    if wanted.get("type") == "json_schema":
        return schema_of(wanted.get("schema"))
    return {"type": "object", "properties": {"answer": {}}} if wanted.get("type") == "json_object" else None


def _written(reply: Reply, id: str) -> list[Json]:
    if reply.calls:
        return [
            {
                "id": f"fc_sim{id[:16]}{index}",
                "type": "function_call",
                "call_id": f"call_sim{id[:16]}{index}",
                "name": call.tool,
                "arguments": json.dumps(call.arguments, ensure_ascii=False),
                "status": "completed",
            }
            for index, call in enumerate(reply.calls)
        ]
    content = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    status = "incomplete" if reply.finish == "length" else "completed"
    message = {"id": f"msg_sim{id[:16]}", "type": "message", "role": "assistant", "status": status}
    return [{**message, "content": [content]}] if reply.text else []


def _usage(spent: Spent) -> dict[str, Json]:
    return {
        "input_tokens": spent.input,
        "input_tokens_details": {"cached_tokens": spent.read, "cache_write_tokens": 0},
        "output_tokens": spent.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.input + spent.output,
    }


def _item_events(index: int, item: dict[str, Any]) -> list[Event]:
    is_call = item["type"] == "function_call"
    unwritten: Event = {"arguments": ""} if is_call else {"content": []}
    empty = {**item, "status": "in_progress", **unwritten}
    at = {"item_id": item["id"], "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": empty},
        *(_call_events(item, at) if is_call else _text_events(item, at)),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _call_events(item: dict[str, Any], at: Event) -> list[Event]:
    kind = "response.function_call_arguments"
    deltas = [{"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces(item["arguments"])]
    return [*deltas, {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}]


def _text_events(item: dict[str, Any], at: Event) -> list[Event]:
    part, at = item["content"][0], {**at, "content_index": 0}
    kind = "response.output_text"
    return [
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": f"{kind}.delta", **at, "delta": piece, "logprobs": []} for piece in pieces(part["text"])),
        {"type": f"{kind}.done", **at, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
    ]
