"""OpenAI's Batch API: a file of requests is uploaded, a batch is made of it, and its results come in two files."""

from collections.abc import Collection, Generator, Iterable
from contextlib import AbstractContextManager, suppress
from typing import IO, Literal

from openai import OpenAI, OpenAIError, omit

from nightdesk.canonical import Json
from nightdesk.failpoints import failpoint
from nightdesk.model.providers.base import Account, Found, Item, ItemResult, Parcel, Progress, Refused, TryLater
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

_Path = Literal["/v1/chat/completions", "/v1/responses"]
_PATHS: dict[str, _Path] = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
_MARK = "nightdesk"
_PAGE = 100
_RUNNING = ("validating", "in_progress", "finalizing")
_WITH_RESULTS = ("completed", "expired", "cancelled")
_NO_ROOM = "token_limit_exceeded"


class OpenAIBatches:
    most_items = 50_000
    most_bytes = 190_000_000
    one_model = True

    def __init__(self, account: Account) -> None:
        self._key = account.key
        self._client = OpenAI(
            api_key=account.key,
            base_url=account.base_url,
            default_headers=account.headers,
            max_retries=0,
            timeout=TIMEOUT,
            http_client=client_for(account),
        )
        self._batches = self._client.batches.with_raw_response

    def create(self, parcel: Parcel) -> str:
        path = _PATHS[parcel.endpoint]
        with spooled(_lines(parcel.items, path)) as file:
            file_id = self._upload(parcel, file)
        failpoint("batch-uploaded", "openai")
        try:
            return self._create(parcel, path, file_id)
        except (TryLater, Refused):
            self._discard(file_id)
            raise

    def find(self, parcel: Parcel, known: frozenset[str]) -> Found | None:
        def page(cursor: str | None) -> tuple[list[Json], str | None]:
            with self._told_apart():
                answer = self._batches.list(limit=_PAGE, after=cursor or omit, extra_headers=parcel.headers)
                listed = as_object(answer.http_response, "data")
            found = listed["data"]
            return found, found[-1]["id"] if found and listed.get("has_more") else None

        made = made_since(parcel, page, lambda batch: batch.get("created_at"))
        ours = (batch for batch in made if (batch.get("metadata") or {}).get(_MARK) == parcel.id)
        found = next((batch["id"] for batch in ours if batch["id"] not in known), None)
        return Found(found, sure=True) if found else None

    def holds(self, provider_id: str, names: Collection[str]) -> bool | None:
        return holds_names(self.progress(provider_id), self.results(provider_id), names)

    def progress(self, provider_id: str) -> Progress:
        batch = self._batch(provider_id)
        status, expires_at = batch["status"], moment(batch.get("expires_at"))
        if status == "failed":
            errors = (batch.get("errors") or {}).get("data") or []
            text = "; ".join(f"{error.get('code')}: {error.get('message')}" for error in errors)
            no_room = any(error.get("code") == _NO_ROOM for error in errors)
            return Progress("failed", text or "no reason given", no_room, expires_at, moment(batch.get("failed_at")))
        if status in _WITH_RESULTS:
            return Progress("ended", expires_at=expires_at, ended_at=moment(batch.get(f"{status}_at")))
        return Progress("open", expires_at=expires_at)

    def results(self, provider_id: str) -> Generator[ItemResult, None, None]:
        batch = self._batch(provider_id)
        answered = (batch.get("request_counts") or {}).get("completed")
        if batch["status"] not in (*_WITH_RESULTS, "failed") or (answered and not batch.get("output_file_id")):
            raise TryLater("The batch has no results yet.")
        # What has expired or was cancelled has an output file too, of answers that are paid for.
        for file_id in filter(None, (batch.get("output_file_id"), batch.get("error_file_id"))):
            with (
                self._told_apart(),
                self._client.files.with_streaming_response.content(file_id) as answer,
            ):
                yield from read_results(answer.iter_bytes(), _read, provider_id)

    def cancel(self, provider_id: str) -> None:
        def cancel() -> None:
            with self._told_apart():
                self._batches.cancel(provider_id)

        cancel_running(lambda: self._batch(provider_id)["status"] in _RUNNING, cancel)

    def close(self) -> None:
        self._client.close()

    def _upload(self, parcel: Parcel, file: IO[bytes]) -> str:
        with self._told_apart():
            answer = self._client.files.with_raw_response.create(
                file=(f"{parcel.id}.jsonl", file, "application/jsonl"), purpose="batch", extra_headers=parcel.headers
            )
            return str(as_object(answer.http_response, "id")["id"])

    def _create(self, parcel: Parcel, path: _Path, file_id: str) -> str:
        with self._told_apart(creating=True):
            answer = self._batches.create(
                input_file_id=file_id,
                endpoint=path,
                completion_window="24h",
                metadata={_MARK: parcel.id},
                extra_headers=parcel.headers,
            )
            return str(as_object(answer.http_response, "id")["id"])

    def _discard(self, file_id: str) -> None:
        """A file that stays behind costs nothing and goes in time."""
        with suppress(TryLater, Refused), self._told_apart():
            self._client.files.delete(file_id)

    def _batch(self, provider_id: str) -> dict[str, Json]:
        with self._told_apart():
            return as_object(self._batches.retrieve(provider_id).http_response, "status")

    def _told_apart(self, *, creating: bool = False) -> AbstractContextManager[None]:
        return told_apart("openai", self._key, OpenAIError, creating=creating)


def _lines(items: Iterable[Item], path: str) -> Generator[bytes, None, None]:
    for item in items:
        yield dumped({"custom_id": item.name, "method": "POST", "url": path, "body": item.body}) + b"\n"


def _read(line: Json) -> ItemResult:
    name, response = line["custom_id"], line.get("response")
    if response is not None:
        status = int(response["status_code"])
        return ItemResult(name, "done" if 200 <= status < 300 else "error", status, response["body"])
    error = line["error"]
    match error["code"]:
        case "batch_expired":
            return ItemResult(name, "expired")
        case "batch_cancelled":
            return ItemResult(name, "cancelled")
    live = {"message": error.get("message"), "type": "server_error", "param": None, "code": error["code"]}
    return ItemResult(name, "error", 500, {"error": live})
