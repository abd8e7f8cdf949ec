"""OpenAI's Chat Completions."""

import json
from typing import Any

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import Reply
from nightdesk.model.simulator.bodies import count, whole
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.dialect import Answered, event, missing, pieces, schema_of
from nightdesk.model.simulator.prompts import ANY, Part, Prompt, Tool, as_part, joined, texts_of
from nightdesk.model.simulator.refusals import Refusal

_MOST_CHOICES = 128
_REASONS = {"stop": "stop", "length": "length", "tools": "tool_calls"}


class Chat:
    provider = "openai"
    endpoint = "/v1/chat/completions"
    marks_cache = False

    def problem(self, body: dict[str, Json]) -> Refusal | None:
        if name := missing(body, "model", "messages"):
            return Refusal(400, f"Missing required parameter: '{name}'.")
        if not isinstance(body["messages"], list) or not all(isinstance(item, dict) for item in body["messages"]):
            return Refusal(400, "Invalid type for 'messages': expected an array of objects.")
        return None

    def read(self, body: dict[str, Json]) -> Prompt:
        messages: list[dict[str, Any]] = body["messages"]
        return Prompt(
            model=body["model"],
            parts=_parts(body),
            asked=next((text for message in reversed(messages) if (text := _spoken(message, "user"))), ""),
            material=joined(_spoken(message, "tool") for message in messages),
            tools=[] if body.get("tool_choice") == "none" else _tools(body),
            forced=forced_tool(body.get("tool_choice")),
            schema=_schema(body),
            tool_turns=sum(1 for message in messages if message.get("tool_calls")),
            most_tokens=whole(body, "max_completion_tokens") or whole(body, "max_tokens"),
            answers=count(body, "n", _MOST_CHOICES),
        )

    def write(self, answered: Answered) -> dict[str, Json]:
        choice = {
            "message": _message(answered.reply, answered.id),
            "logprobs": None,
            "finish_reason": _REASONS[answered.reply.finish],
        }
        return {
            "id": f"chatcmpl-sim{answered.id[:20]}",
            "object": "chat.completion",
            "created": answered.created,
            "model": answered.body["model"],
            "choices": [{"index": index, **choice} for index in range(answered.count)],
            "usage": _usage(answered.spent),
            "service_tier": "flex" if answered.lane == "flex" else "default",
        }

    def stream(self, answer: dict[str, Json], body: dict[str, Json]) -> bytes:
        chunks = [chunk for choice in answer["choices"] for chunk in _chunks(choice)]
        head = {key: answer[key] for key in ("id", "created", "model", "service_tier")}
        head["object"] = "chat.completion.chunk"
        events = [event({**head, "choices": [chunk]}) for chunk in chunks]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append(event({**head, "choices": [], "usage": answer["usage"]}))
        return "".join([*events, "data: [DONE]\n\n"]).encode()


def forced_tool(choice: Json) -> str:
    """In both of OpenAI's forms of it."""
    if isinstance(choice, dict):
        name = choice.get("name") or schema_of(choice.get("function")).get("name") or ANY
        return str(name)
    return ANY if choice == "required" else ""


def _parts(body: dict[str, Json]) -> list[Part]:
    parts = [as_part(tool) for tool in body.get("tools") or []]
    for message in body["messages"]:
        content = message.get("content")
        parts.append(as_part(content if isinstance(content, str) else message))
    return parts


def _spoken(message: dict[str, Any], role: str) -> str:
    return joined(texts_of(message.get("content"), "text")) if message.get("role") == role else ""


def _tools(body: dict[str, Json]) -> list[Tool]:
    functions = [tool["function"] for tool in body.get("tools") or [] if tool.get("type") == "function"]
    return [Tool(function["name"], schema_of(function.get("parameters"))) for function in functions]


def _schema(body: dict[str, Json]) -> Json:
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return schema_of(schema_of(wanted.get("json_schema")).get("schema"))
    return {"type": "object", "properties": {"answer": {}}} if wanted.get("type") == "json_object" else None


def _message(reply: Reply, id: str) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": None if reply.calls else reply.text, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": f"call_sim{id[:16]}{index}",
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for index, call in enumerate(reply.calls)
        ]
    return message


def _usage(spent: Spent) -> dict[str, Json]:
    return {
        "prompt_tokens": spent.input,
        "completion_tokens": spent.output,
        "total_tokens": spent.input + spent.output,
        "prompt_tokens_details": {"cached_tokens": spent.read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _chunks(choice: dict[str, Any]) -> list[dict[str, Json]]:
    blank: dict[str, Json] = {"index": choice["index"], "logprobs": None, "delta": {}, "finish_reason": None}
    told = [{**blank, "delta": delta} for delta in _deltas(choice["message"])]
    return [*told, {**blank, "finish_reason": choice["finish_reason"]}]


def _deltas(message: dict[str, Any]) -> list[dict[str, Json]]:
    deltas: list[dict[str, Json]] = [{"role": "assistant", "content": "" if message["content"] is not None else None}]
    deltas += [{"content": piece} for piece in pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls") or []):
        begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        for piece in pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas
