"""How many tokens images, documents, sounds and films in a request are counted as: by what each may be at most, for
they are not decoded."""

import base64
import binascii
import re

from nightdesk.canonical import Json
from nightdesk.model.asks import Ask
from nightdesk.model.providers.wire import at

_IMAGE = {"anthropic": 5_000, "openai": 5_000, "google": 3_000}
# These models count an image as 33 times the tokens, at a price as much lower.
_MANY_TOKENS_AN_IMAGE = ("gpt-4o-mini", 40_000)
_PAGE = {"anthropic": 5_000, "openai": 5_000, "google": 1_500}
_UNSEEN_DOCUMENT = 50_000
_UNSEEN_FILM = 300_000
_BYTES_PER_PAGE = 20_000
_BYTES_PER_SOUND_TOKEN = 50
_PAGES = re.compile(rb"/Count\s+(\d{1,5})\b")
_PAGE_OBJECTS = re.compile(rb"/Type\s*/Page\b(?!s)")
_MOST_PAGES = 1_000


def media_tokens(value: Json, ask: Ask) -> int | None:
    """The tokens of an image, document, sound or film; None if the value is none of them."""
    if not isinstance(value, dict):
        return None
    kind, data = _kind_and_data(value)
    match kind:
        case "image":
            name, many = _MANY_TOKENS_AN_IMAGE
            return many if name in ask.model else _IMAGE[ask.provider]
        case "document":
            return _UNSEEN_DOCUMENT if data is None else _pages(data) * _PAGE[ask.provider]
        case "sound":
            return _UNSEEN_FILM if data is None else len(data) * 3 // 4 // _BYTES_PER_SOUND_TOKEN
    return None


def _kind_and_data(value: dict[str, Json]) -> tuple[str, str | None]:
    """The kind of media, and its base64 if it is in the request itself."""
    for key in ("inlineData", "inline_data", "fileData", "file_data"):
        held = value.get(key)
        if isinstance(held, dict):
            return _kind_of(str(held.get("mimeType") or held.get("mime_type") or "")), _text(held.get("data"))
    match value.get("type"):
        case "image" | "image_url" | "input_image" if "source" in value or "image_url" in value or "file_id" in value:
            return "image", None
        case "document" if at(value, "source", "type") in ("base64", "url", "file"):
            return "document", _text(at(value, "source", "data"))
        case "file" | "input_file":
            held = value.get("file") if isinstance(value.get("file"), dict) else value
            return "document", _after_comma(_text(at(held, "file_data")))
        case "input_audio":
            return "sound", _text(at(value, "input_audio", "data"))
    return "", None


def _kind_of(mime: str) -> str:
    return {"image": "image", "audio": "sound", "video": "sound"}.get(mime.partition("/")[0], "document")


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _after_comma(data_url: str | None) -> str | None:
    return data_url.rpartition(",")[2] if data_url else None


def _pages(data: str) -> int:
    """The pages of a PDF, as it says itself or by its size."""
    try:
        content = base64.b64decode(data, validate=False)
    except (ValueError, binascii.Error):
        return 1
    stated = [int(count) for count in _PAGES.findall(content)]
    known = min(max([*stated, len(_PAGE_OBJECTS.findall(content))]), _MOST_PAGES)
    return known or 1 + len(content) // _BYTES_PER_PAGE
