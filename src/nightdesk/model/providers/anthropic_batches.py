"""Anthropic's Message Batches. A batch bears no mark of ours, so one that a crash left behind is known by its time, its
size and at last by its results."""

from collections.abc import Collection, Generator, Iterable
from contextlib import AbstractContextManager
from typing import Any

import httpx2
from anthropic import Anthropic, AnthropicError, RequestOptions, omit

from nightdesk.canonical import Json
from nightdesk.model.providers import find
from nightdesk.model.providers.base import Account, Found, Item, ItemResult, Parcel, Progress, TryLater
from nightdesk.model.providers.batch_errors import told_apart
from nightdesk.model.providers.batching import (
    TIMEOUT,
    as_object,
    cancel_running,
    client_for,
    dumped,
    holds_names,
    made_since,
    moment,
    read_results,
    spooled,
)

_PAGE = 100
# The status with which the error would have come live.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicBatches:
    most_items = 100_000
    most_bytes = 240_000_000
    one_model = False

    def __init__(self, account: Account) -> None:
        self._key = account.key
        # The SDK would send any key as a bearer, which is not for every API version that a batch may be of.
        auth: dict[str, Any] = {"authorization": omit, **find("anthropic").auth_headers(account.key)}
        self._client = Anthropic(
            api_key=account.key,
            base_url=account.base_url,
            default_headers={**account.headers, **auth},
            max_retries=0,
            timeout=TIMEOUT,
            http_client=client_for(account),
        )
        self._batches = self._client.messages.batches.with_raw_response

    def create(self, parcel: Parcel) -> str:
        # The SDK's own `create` would hold all requests in memory, several times over.
        with spooled(_body(parcel.items)) as body, self._told_apart(creating=True):
            options: RequestOptions = {"headers": parcel.headers}
            answer = self._client.post("/v1/messages/batches", cast_to=httpx2.Response, content=body, options=options)
            return str(as_object(answer, "id")["id"])

    def find(self, parcel: Parcel, known: frozenset[str]) -> Found | None:
        def page(cursor: str | None) -> tuple[list[Json], str | None]:
            with self._told_apart():
                answer = self._batches.list(limit=_PAGE, after_id=cursor or omit, extra_headers=_workspace(parcel))
                listed = as_object(answer.http_response, "data")
            return listed["data"], listed.get("last_id") if listed.get("has_more") else None

        made = made_since(parcel, page, lambda batch: batch.get("created_at"))
        alike = [batch for batch in made if batch["id"] not in known and _size(batch) == parcel.count]
        nearest = min(alike, key=lambda batch: _distance(batch, parcel), default=None)
        return Found(nearest["id"], sure=False) if nearest else None

    def holds(self, provider_id: str, names: Collection[str]) -> bool | None:
        return holds_names(self.progress(provider_id), self.results(provider_id), names)

    def progress(self, provider_id: str) -> Progress:
        batch = self._batch(provider_id)
        return Progress(
            "ended" if batch["processing_status"] == "ended" else "open",
            expires_at=moment(batch.get("expires_at")),
            ended_at=moment(batch.get("ended_at")),
        )

    def results(self, provider_id: str) -> Generator[ItemResult, None, None]:
        if not self._batch(provider_id).get("results_url"):
            raise TryLater("The batch has no results yet.")
        with (
            self._told_apart(),
            self._client.messages.batches.with_streaming_response.results(provider_id) as answer,
        ):
            yield from read_results(answer.iter_bytes(), _read, provider_id)

    def cancel(self, provider_id: str) -> None:
        def cancel() -> None:
            with self._told_apart():
                self._batches.cancel(provider_id)

        cancel_running(lambda: self._batch(provider_id)["processing_status"] == "in_progress", cancel)

    def close(self) -> None:
        self._client.close()

    def _batch(self, provider_id: str) -> dict[str, Json]:
        with self._told_apart():
            return as_object(self._batches.retrieve(provider_id).http_response, "processing_status")

    def _told_apart(self, *, creating: bool = False) -> AbstractContextManager[None]:
        return told_apart("anthropic", self._key, AnthropicError, creating=creating)


def _body(items: Iterable[Item]) -> Generator[bytes, None, None]:
    yield b'{"requests":['
    for place, item in enumerate(items):
        yield (b"," if place else b"") + dumped({"custom_id": item.name, "params": item.body})
    yield b"]}"


def _workspace(parcel: Parcel) -> dict[str, str]:
    """The header that says whose batches are listed. The others tell how requests are meant, and here mean nothing."""
    return {name: value for name, value in parcel.headers.items() if name == "anthropic-workspace-id"}


def _size(batch: Json) -> int:
    """How many requests it has; until it ends, all are counted as processing."""
    return sum(count for count in (batch.get("request_counts") or {}).values() if isinstance(count, int))


def _distance(batch: Json, parcel: Parcel) -> float:
    at = moment(batch.get("created_at")) or parcel.created_at
    return abs((at - parcel.created_at).total_seconds())


def _read(line: Json) -> ItemResult:
    name, result = line["custom_id"], line["result"]
    match result["type"]:
        case "succeeded":
            return ItemResult(name, "done", 200, result["message"])
        case "errored":
            error = result["error"]
            return ItemResult(name, "error", _STATUS.get(error["error"]["type"], 500), error)
        case "canceled":
            return ItemResult(name, "cancelled")
        case "expired":
            return ItemResult(name, "expired")
    raise ValueError("a result of no known type")
