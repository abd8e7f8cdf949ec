"""The wire protocol of Google's Gemini Developer API. (Vertex AI is another system, and is not carried.)"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import parse_qsl, unquote, urlencode

from nightdesk.canonical import Json, digest
from nightdesk.errors import Invalid
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers.base import Learned, Trouble
from nightdesk.model.providers.wire import at, bearer, body_of, event, objects, place, refuse_own_batch, whole

_ASKING = re.compile(r"/(v1(?:alpha|beta)?)/((?:models|tunedModels)/[^/:]+):(generateContent|streamGenerateContent)$")
_BATCHES = re.compile(r"/v1(?:alpha|beta)?/models/[^/:]+:batchGenerateContent$")
# Of the query, what carries the key or the form of the answer is not part of the question.
_NOT_THE_QUESTION = {"alt", "$alt", "key", "prettyPrint"}
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini:
    name = "google"
    key_variables: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    url_variable = "GOOGLE_GEMINI_BASE_URL"
    default_url = "https://generativelanguage.googleapis.com"
    has_flex = True

    def recognise(self, request: HttpRequest) -> Ask | None:
        if place(request, _BATCHES) is not None:
            refuse_own_batch()
        found = place(request, _ASKING)
        if found is None:
            return None
        version, model, verb = found.groups
        query = parse_qsl(found.query)
        streamed = verb == "streamGenerateContent"
        if streamed and dict(query).get("alt") != "sse":
            raise Invalid("The request streams an array.", [], "Add `?alt=sse` to its URL, as Google's SDKs do.")
        kept = urlencode([(key, value) for key, value in query if key not in _NOT_THE_QUESTION])
        path = f"/{version}/{model}:generateContent" + (f"?{kept}" if kept else "")
        name = unquote(model.removeprefix("models/"))
        return Ask(self.name, "generate", found.base_url, path, name, body_of(request), {}, streamed)

    def sent_key(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-api-key") or bearer(headers)

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def output_limit(self, ask: Ask) -> int | None:
        config = _config(ask.body)
        limit = whole(config.get("maxOutputTokens")) or whole(config.get("max_output_tokens"))
        return limit * _candidates(config) if limit else None

    def limited(self, ask: Ask, tokens: int) -> dict[str, Json]:
        config = _config(ask.body)
        rest = {key: value for key, value in config.items() if key != "max_output_tokens"}
        bound = {**rest, "maxOutputTokens": max(1, tokens // _candidates(config))}
        return {key: value for key, value in ask.body.items() if key != "generation_config"} | {
            "generationConfig": bound
        }

    def with_model(self, ask: Ask, model: str) -> Ask:
        version, _, rest = ask.path.lstrip("/").partition("/")
        _, _, verb = rest.partition(":")
        folder = "" if model.startswith(("models/", "tunedModels/")) else "models/"
        return replace(ask, model=model.removeprefix("models/"), path=f"/{version}/{folder}{model}:{verb}")

    def flexed(self, body: dict[str, Json]) -> dict[str, Json]:
        return {key: value for key, value in body.items() if key != "service_tier"} | {"serviceTier": "flex"}

    def tools(self, ask: Ask) -> list[str]:
        return [name for tool in objects(ask.body.get("tools")) for name in _tool_names(tool)]

    def completed(self, ask: Ask, answer: Json) -> Json:
        """Each function call without an id gets one that follows from the request, and so is the same every time."""
        if not isinstance(answer, dict) or all("id" in call for call in _calls(answer)):
            return answer
        numbers = iter(range(1_000_000))
        candidates = [_with_ids(candidate, ask.hash, numbers) for candidate in answer["candidates"]]
        return {**answer, "candidates": candidates}

    def error(self, endpoint: str, status: int, message: str, code: str = "") -> Json:
        default = "INTERNAL" if status >= 500 else "FAILED_PRECONDITION"
        return {"error": {"code": status, "message": message, "status": code or _STATUS_NAMES.get(status, default)}}

    def trouble(self, status: int, body: Json) -> Trouble:
        error = at(body[0] if isinstance(body, list) and body else body, "error")
        message = str(at(error, "message") or "").lower()
        reasons = {str(detail.get("reason")) for detail in objects(at(error, "details"))}
        if status == 402 or "BILLING_DISABLED" in reasons or "credits are depleted" in message:
            return "spend"
        if status in (401, 403) or "API_KEY_INVALID" in reasons or "api key not valid" in message:
            return "credentials"
        if status == 429:
            return "rate"
        if status in (408, 409, 499) or status >= 500:
            return "overload"
        return "invalid"

    def stream(self, ask: Ask, answer: Json) -> bytes:
        """One chunk: each chunk of this API is a whole answer in itself."""
        return event(answer).encode()

    def learned(self, headers: Mapping[str, str], now: datetime) -> list[Learned]:
        """Gemini tells nothing of its limits in headers."""
        return []


def _config(body: Mapping[str, Json]) -> dict[str, Json]:
    config = body.get("generationConfig") or body.get("generation_config")
    return config if isinstance(config, dict) else {}


def _candidates(config: Mapping[str, Json]) -> int:
    return whole(config.get("candidateCount")) or whole(config.get("candidate_count")) or 1


def _tool_names(tool: dict[str, Json]) -> Iterator[str]:
    for key, value in tool.items():
        if key in ("functionDeclarations", "function_declarations"):
            yield from (str(function.get("name") or "") for function in objects(value))
        else:
            yield key


def _calls(answer: dict[str, Json]) -> Iterator[dict[str, Json]]:
    for candidate in objects(answer.get("candidates")):
        for part in objects(at(candidate, "content", "parts")):
            if isinstance(part.get("functionCall"), dict):
                yield part["functionCall"]


def _with_ids(candidate: Json, seed: str, numbers: Iterator[int]) -> Json:
    if not isinstance(at(candidate, "content", "parts"), list):
        return candidate
    parts = [_with_id(part, seed, numbers) for part in candidate["content"]["parts"]]
    return {**candidate, "content": {**candidate["content"], "parts": parts}}


def _with_id(part: Json, seed: str, numbers: Iterator[int]) -> Json:
    call = at(part, "functionCall")
    if not isinstance(call, dict):
        return part
    made = f"call_{digest(seed, str(next(numbers)))[:24]}"
    return {**part, "functionCall": {**call, "id": call.get("id") or made}}
