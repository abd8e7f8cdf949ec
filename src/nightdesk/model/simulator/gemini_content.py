"""Gemini's generateContent. Its model stands in the address; here it is put into the body as `model`."""

import json
from typing import Any

from nightdesk.canonical import Json
from nightdesk.model.simulator.answers import Reply
from nightdesk.model.simulator.bodies import count, whole
from nightdesk.model.simulator.caching import Spent
from nightdesk.model.simulator.dialect import Answered, event, missing, pieces, schema_of
from nightdesk.model.simulator.gemini_names import all_names, outer_names
from nightdesk.model.simulator.prompts import ANY, Part, Prompt, Tool, as_part, joined
from nightdesk.model.simulator.refusals import Refusal

_MOST_CANDIDATES = 8
_REASONS = {"stop": "STOP", "length": "MAX_TOKENS", "tools": "STOP"}


def bare_model(name: str) -> str:
    return name.removeprefix("models/")


class GenerateContent:
    provider = "gemini"
    endpoint = "generateContent"
    marks_cache = False

    def problem(self, body: dict[str, Json]) -> Refusal | None:
        if missing(body, "contents"):
            return Refusal(400, "* GenerateContentRequest.contents: contents is not specified")
        if not isinstance(body["contents"], list) or not all(isinstance(item, dict) for item in body["contents"]):
            return Refusal(400, "Invalid JSON payload received. 'contents' must be a list of objects.")
        return None

    def read(self, body: dict[str, Json]) -> Prompt:
        body = outer_names(body)
        contents: list[dict[str, Any]] = body["contents"]
        config = schema_of(all_names(body.get("generationConfig")))
        choice = schema_of(all_names(body.get("toolConfig") or {}).get("functionCallingConfig"))
        return Prompt(
            model=body["model"],
            parts=_parts(body),
            asked=next((text for content in reversed(contents) if (text := _spoken(content))), ""),
            material=joined(_results(content) for content in contents),
            tools=[] if choice.get("mode") == "NONE" else _tools(body, choice),
            forced=ANY if choice.get("mode") == "ANY" else "",
            schema=_schema(config),
            tool_turns=sum(1 for content in contents if any("functionCall" in part for part in _pieces_of(content))),
            most_tokens=whole(config, "maxOutputTokens"),
            answers=count(config, "candidateCount", _MOST_CANDIDATES),
        )

    def write(self, answered: Answered) -> dict[str, Json]:
        candidate = {
            "content": {"role": "model", "parts": _written(answered.reply, answered.id)},
            "finishReason": _REASONS[answered.reply.finish],
        }
        return {
            "responseId": f"sim{answered.id[:20]}",
            "modelVersion": answered.body["model"],
            "candidates": [{"index": index, **candidate} for index in range(answered.count)],
            "usageMetadata": _usage(answered.spent),
        }

    def stream(self, answer: dict[str, Json], body: dict[str, Json]) -> bytes:
        chunks = [chunk for candidate in answer["candidates"] for chunk in _chunks(candidate)]
        return "".join(event({**answer, "candidates": [chunk]}) for chunk in chunks).encode()


def _parts(body: dict[str, Json]) -> list[Part]:
    parts = [as_part(tool) for tool in body.get("tools") or []]
    for content in [body.get("systemInstruction") or {}, *body["contents"]]:
        parts += [as_part(part["text"] if set(part) == {"text"} else part) for part in _pieces_of(content)]
    return parts


def _pieces_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [outer_names(part) for part in content.get("parts") or [] if isinstance(part, dict)]


def _spoken(content: dict[str, Any]) -> str:
    """A turn without a role is the user's."""
    if content.get("role", "user") != "user":
        return ""
    return joined(str(part["text"]) for part in _pieces_of(content) if part.get("text"))


def _results(content: dict[str, Any]) -> str:
    answers = [part["functionResponse"] for part in _pieces_of(content) if "functionResponse" in part]
    return joined(json.dumps(answer.get("response"), ensure_ascii=False) for answer in answers)


def _tools(body: dict[str, Json], choice: dict[str, Any]) -> list[Tool]:
    tools = all_names(body.get("tools")) or []
    declared = [function for tool in tools for function in tool.get("functionDeclarations") or []]
    allowed = choice.get("allowedFunctionNames") or [function["name"] for function in declared]
    return [
        Tool(function["name"], schema_of(function.get("parametersJsonSchema") or function.get("parameters")))
        for function in declared
        if function["name"] in allowed
    ]


def _schema(config: dict[str, Any]) -> Json:
    found = config.get("responseJsonSchema") or config.get("responseSchema")
    if found is None and config.get("responseMimeType") == "application/json":
        return {"type": "object", "properties": {"answer": {}}}
    return found


def _written(reply: Reply, id: str) -> list[Json]:
    """Function calls have no id unless the script wants them to, as the real ones often have none."""
    calls = [{"name": call.tool, "args": call.arguments} for call in reply.calls]
    if reply.with_ids:
        calls = [{**call, "id": f"sim{id[:16]}{index}"} for index, call in enumerate(calls)]
    return [*([{"text": reply.text}] if reply.text else []), *({"functionCall": call} for call in calls)]


def _chunks(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [piece for part in candidate["content"]["parts"] for piece in _streamed(part)] or [{"text": ""}]
    chunks = [{"index": candidate["index"], "content": {"role": "model", "parts": [part]}} for part in parts]
    return [*chunks[:-1], {**chunks[-1], "finishReason": candidate["finishReason"]}]


def _streamed(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"text": piece} for piece in pieces(part["text"])] if "text" in part else [part]


def _usage(spent: Spent) -> dict[str, Json]:
    usage = {
        "promptTokenCount": spent.input,
        "candidatesTokenCount": spent.output,
        "totalTokenCount": spent.input + spent.output,
    }
    return {**usage, "cachedContentTokenCount": spent.read} if spent.read else usage
