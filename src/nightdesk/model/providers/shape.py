"""What a request looks like before it is sent: its kind without its words, for requests of one shape are accepted or
refused alike; how many tokens it has, estimated on the high side; and how much of it a cache may hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nightdesk.canonical import Json, canonical, digest
from nightdesk.model.asks import Ask
from nightdesk.model.providers.media import media_tokens
from nightdesk.model.providers.wire import objects, whole

Ttl = Literal["", "5m", "1h"]

# English is at about 4 letters to a token, code and the newest tokenizers at about 3.
_LETTERS_PER_TOKEN = 3
# Beyond ASCII a letter has more bytes and fewer of them make a token.
_TOKENS_PER_EXTRA_BYTE = 0.6
_PER_REQUEST = 50
_PER_OBJECT = 4
# What providers add to a request that has tools, and what their own tools fetch into it.
_FOR_TOOLS = 1_000
_FOR_A_FETCHING_TOOL = 50_000
# What an earlier response, a conversation or stored content may bring along.
_FOR_HIDDEN_HISTORY = 50_000
_LEAST_CACHED = 1_024

_ORDER = (
    *("tools", "functions", "system", "systemInstruction", "system_instruction", "instructions"),
    *("messages", "input", "contents"),
)
_SEARCHING = ("web_search", "googleSearch", "google_search")
_FETCHING = (*_SEARCHING, "web_fetch", "file_search", "urlContext", "url_context")
_SEARCHES_A_TOOL = 10

# Where the words are: of these only the kinds of their parts belong to the shape.
_WORDS = {
    "messages",
    "system",
    "input",
    "contents",
    "systemInstruction",
    "system_instruction",
    "instructions",
    "prompt",
}
# What describes what the model may do and must answer: all of it belongs to the shape, but for its prose.
_SCHEMAS = {"tools", "functions", "output_config", "output_format", "response_format", "text", "tool_choice"}
_CONFIGS = {"generationConfig", "generation_config"}
_PROSE = {"description", "title"}
_KINDS = {"type", "role"}


def shape(ask: Ask) -> str:
    """A digest of endpoint, model, headers, keys, tools, schemas and the kinds of content."""
    outline = {key: _outline(key, value) for key, value in ask.body.items()}
    return digest(ask.provider, ask.endpoint, ask.model, canonical(ask.headers), canonical(outline))


def _outline(key: str, value: Json) -> Json:
    if key in _WORDS:
        return sorted(set(_kinds(value)))
    if key in _SCHEMAS:
        return _without_prose(value)
    if key in _CONFIGS and isinstance(value, dict):
        schemas = ("responseSchema", "responseJsonSchema", "response_schema", "response_json_schema")
        return {name: _without_prose(item) if name in schemas else _form(item) for name, item in value.items()}
    return _form(value)


def _kinds(value: Json) -> Iterator[str]:
    """Each message and block by its type, role and keys; what is deeper inside is data."""
    if isinstance(value, str):
        yield "text"
    for part in objects(value if isinstance(value, list) else [value]):
        yield _kind(part)
        for key in ("content", "parts"):
            inner = part.get(key)
            yield from (_kind(block) for block in objects(inner))
            yield from ("text" for _ in range(isinstance(inner, str)))


def _kind(part: dict[str, Json]) -> str:
    named = [f"{key}={part[key]}" for key in sorted(_KINDS) if isinstance(part.get(key), str)]
    return " ".join([*named, *sorted(part)])


def _form(value: Json) -> Json:
    """The value with the type in place of each word and number. A list has its forms once each, in one order."""
    if isinstance(value, dict):
        return {key: item if key in _KINDS and isinstance(item, str) else _form(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted({canonical(_form(item)) for item in value})
    return type(value).__name__


def _without_prose(value: Json) -> Json:
    if isinstance(value, dict):
        prose = {key for key in _PROSE if isinstance(value.get(key), str)}
        return {key: _without_prose(item) for key, item in value.items() if key not in prose}
    return [_without_prose(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a request that a cache may hold. `ttl` is for how long the request asks for that by marks, the
    longest of them; empty if it has none. `key` is the same for requests that begin alike."""

    tokens: int
    ttl: Ttl
    key: str


def input_tokens(ask: Ask) -> int:
    """Somewhat more than the tokens that the request will be counted as; there is no tokenizer."""
    return _PER_REQUEST + sum(tokens for tokens, _, _ in _segments(ask)) + _brought_along(ask)


def prefix(ask: Ask) -> Prefix:
    """Where caching is asked for by marks (Anthropic) it goes up to the last of them, and where it is automatic it is
    all but the last message; no tokens where it is too little to be cached."""
    segments = list(_segments(ask))
    ttl: Ttl = ""
    cached = len(segments) - 1
    if ask.provider == "anthropic":
        cached = max((number for number, (_, mark, _) in enumerate(segments, 1) if mark), default=0)
        ttl = _longest({mark for _, mark, _ in segments} | {_mark(ask.body)})
        # A mark on the request itself: all of it is cached.
        cached = len(segments) if _mark(ask.body) else cached
    tokens = sum(tokens for tokens, _, _ in segments[:cached])
    if tokens < _LEAST_CACHED:
        return Prefix(0, ttl, "")
    return Prefix(tokens, ttl, digest(ask.model, *(canonical(part) for _, _, part in segments[1:cached])))


def has_media(ask: Ask) -> bool:
    """Whether there is anything but text in the request."""
    return any(media_tokens(value, ask) is not None for value in _walk(ask.body))


def searches(ask: Ask) -> int:
    """The most web searches that the request allows, as each has a price; a guess where it states no limit."""
    found = [tool for tool in objects(ask.body.get("tools")) if _is_one_of(tool, _SEARCHING)]
    return sum(whole(tool.get("max_uses")) or _SEARCHES_A_TOOL for tool in found)


def _is_one_of(tool: dict[str, Json], names: tuple[str, ...]) -> bool:
    """Whether it is the provider's own tool of one of these names: its type begins so, or it is a key (Gemini)."""
    return str(tool.get("type", "")).startswith(names) or any(name in tool for name in names)


def _segments(ask: Ask) -> Iterator[tuple[int, Ttl, Json]]:
    """The request in the order in which it is cached (tools, system, messages), each piece with its mark."""
    body = ask.body
    rest = {key: value for key, value in body.items() if key not in _ORDER}
    yield _tokens(rest, ask), "", None
    for key in _ORDER:
        value = body.get(key)
        for part in value if isinstance(value, list) else [] if value is None else [value]:
            yield from _pieces(part, ask)


def _pieces(part: Json, ask: Ask) -> Iterator[tuple[int, Ttl, Json]]:
    """A message with marks inside is taken apart into its blocks, as what follows the last mark is not cached."""
    content = part.get("content") if isinstance(part, dict) and ask.provider == "anthropic" else None
    for block in content if isinstance(content, list) else [part]:
        marks = {_mark(value) for value in _walk(block)} if ask.provider == "anthropic" else set()
        yield _tokens(block, ask) + _PER_OBJECT, _longest(marks), block


def _longest(marks: set[Ttl]) -> Ttl:
    return "1h" if "1h" in marks else "5m" if "5m" in marks else ""


def _mark(value: Json) -> Ttl:
    control = value.get("cache_control") if isinstance(value, dict) else None
    if not isinstance(control, dict):
        return ""
    return "1h" if control.get("ttl") == "1h" else "5m"


def _walk(value: Json) -> Iterator[Json]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _walk(item)


def _tokens(value: Json, ask: Ask) -> int:
    if isinstance(value, str):
        return _of_text(value)
    media = media_tokens(value, ask)
    if media is not None:
        return media
    if isinstance(value, dict):
        return _PER_OBJECT + sum(_of_text(key) + _tokens(item, ask) for key, item in value.items())
    return sum(_tokens(item, ask) for item in value) if isinstance(value, list) else 2


def _of_text(text: str) -> int:
    extra = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - len(text)
    return 1 + len(text) // _LETTERS_PER_TOKEN + int(extra * _TOKENS_PER_EXTRA_BYTE)


def _brought_along(ask: Ask) -> int:
    tools = objects(ask.body.get("tools"))
    fetching = sum(_is_one_of(tool, _FETCHING) for tool in tools)
    hidden = any(ask.body.get(key) for key in ("previous_response_id", "conversation", "cachedContent"))
    return bool(tools) * _FOR_TOOLS + fetching * _FOR_A_FETCHING_TOOL + hidden * _FOR_HIDDEN_HISTORY
