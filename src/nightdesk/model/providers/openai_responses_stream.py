"""A whole response of OpenAI's Responses API, told as the events of a streamed one."""

from collections.abc import Iterator

from nightdesk.canonical import Json
from nightdesk.model.providers.wire import objects

# The last event of a response, by its status.
_LAST = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def response_events(response: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The events, numbered."""
    for number, event in enumerate(_events(response)):
        yield {**event, "sequence_number": number}


def _events(response: dict[str, Json]) -> Iterator[dict[str, Json]]:
    opening = {**response, "status": "in_progress", "output": [], "usage": None, "error": None}
    opening |= {"incomplete_details": None}
    yield {"type": "response.created", "response": opening}
    yield {"type": "response.in_progress", "response": opening}
    for index, item in enumerate(objects(response.get("output"))):
        yield {"type": "response.output_item.added", "output_index": index, "item": _opened(item)}
        place = {"item_id": item.get("id"), "output_index": index}
        yield from ({**event, **place} for event in _item_events(item))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": _LAST.get(str(response.get("status")), "response.completed"), "response": response}


def _opened(item: dict[str, Json]) -> dict[str, Json]:
    """The item as it is when it begins. What has no status gets none."""
    status = {"status": "in_progress"} if "status" in item else {}
    match item.get("type"):
        case "message":
            return {**item, **status, "content": []}
        case "function_call":
            return {**item, **status, "arguments": ""}
        case "custom_tool_call":
            return {**item, **status, "input": ""}
        case "reasoning":
            content: dict[str, Json] = {"content": []} if item.get("content") else {}
            return {**item, **status, "summary": [], **content}
    return item


def _item_events(item: dict[str, Json]) -> Iterator[dict[str, Json]]:
    match item.get("type"):
        case "message":
            for index, part in enumerate(objects(item.get("content"))):
                yield from ({**event, "content_index": index} for event in _part_events(part))
        case "function_call":
            yield from _told("function_call_arguments", "arguments", item.get("arguments"), name=item.get("name"))
        case "custom_tool_call":
            yield from _told("custom_tool_call_input", "input", item.get("input"))
        case "reasoning":
            yield from _reasoning_events(item)


def _part_events(part: dict[str, Json]) -> Iterator[dict[str, Json]]:
    if part.get("type") == "refusal":
        yield {"type": "response.content_part.added", "part": {**part, "refusal": ""}}
        yield from _told("refusal", "refusal", part.get("refusal"))
    else:
        yield {"type": "response.content_part.added", "part": {**part, "text": "", "annotations": []}}
        yield from _told("output_text", "text", part.get("text"), logprobs=part.get("logprobs") or [])
        for index, annotation in enumerate(objects(part.get("annotations"))):
            yield {
                "type": "response.output_text.annotation.added",
                "annotation_index": index,
                "annotation": annotation,
            }
    yield {"type": "response.content_part.done", "part": part}


def _reasoning_events(item: dict[str, Json]) -> Iterator[dict[str, Json]]:
    for index, part in enumerate(objects(item.get("summary"))):
        place = {"summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}, **place}
        yield from ({**event, **place} for event in _told("reasoning_summary_text", "text", part.get("text")))
        yield {"type": "response.reasoning_summary_part.done", "part": part, **place}
    for index, part in enumerate(objects(item.get("content"))):
        place = {"content_index": index}
        yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **place}
        yield from ({**event, **place} for event in _told("reasoning_text", "text", part.get("text")))
        yield {"type": "response.content_part.done", "part": part, **place}


def _told(kind: str, field: str, text: Json, **more: Json) -> Iterator[dict[str, Json]]:
    """A text in one piece, and its end. `more` is what both events say besides."""
    both = {key: value for key, value in more.items() if key != "name"}
    yield {"type": f"response.{kind}.delta", "delta": text or "", **both}
    yield {"type": f"response.{kind}.done", field: text or "", **more}
