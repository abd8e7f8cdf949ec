"""Gemini's batches: small ones travel inside the request that makes them, large ones as a file.

What is JSON goes over the HTTP client of the SDK as it is, because the SDK's types drop what they do not know.
"""

import io
import json
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from tempfile import TemporaryFile
from typing import IO, Any

from google import genai
from google.genai import errors, types

from nightdesk.canonical import Json
from nightdesk.failpoints import failpoint
from nightdesk.model.providers.base import Account, Found, ItemResult, Parcel, Progress, Refused, TryLater
from nightdesk.model.providers.batch_errors import told_apart
from nightdesk.model.providers.batching import (
    TIMEOUT,
    as_object,
    cancel_running,
    chunks_of,
    client_for,
    dumped,
    holds_names,
    made_since,
    moment,
    read_results,
    spooled,
)
from nightdesk.model.providers.gemini_lines import file_lines, inline, mark, read_line, request_body

_VERSION = "v1beta"  # it knows all that v1 knows, so it carries the bodies of both
_PAGE = 100
_INLINE_BYTES = 15_000_000
_LIFETIME = timedelta(hours=48)
_ENDED = ("SUCCEEDED", "CANCELLED", "EXPIRED", "FAILED")
_EXHAUSTED = 8


class GeminiBatches:
    most_items = 50_000
    most_bytes = 1_900_000_000
    one_model = True

    def __init__(self, account: Account) -> None:
        self._account = account
        self._base = f"{account.base_url}/{_VERSION}"
        headers = {**account.headers, "x-goog-api-key": account.key}
        self._http = client_for(account, headers=headers)

    def create(self, parcel: Parcel) -> str:
        with spooled(file_lines(parcel.items)) as file:
            if file.seek(0, io.SEEK_END) <= _INLINE_BYTES:
                file.seek(0)
                return self._create(parcel, inline(file))
            file.seek(0)
            name = self._upload(parcel, file)
        failpoint("batch-uploaded", "google")
        try:
            return self._create(parcel, [dumped({"fileName": name})])
        except (TryLater, Refused):
            self._discard(name)
            raise

    def find(self, parcel: Parcel, known: frozenset[str]) -> Found | None:
        def page(cursor: str | None) -> tuple[list[Json], str | None]:
            query = {"pageSize": str(_PAGE)} | ({"pageToken": cursor} if cursor else {})
            listed = self._call("GET", "batches", params=query)
            return listed.get("operations") or [], listed.get("nextPageToken")

        made = made_since(parcel, page, lambda batch: _metadata(batch).get("createTime"))
        ours = (batch for batch in made if _metadata(batch).get("displayName") == mark(parcel))
        found = next((batch["name"] for batch in ours if batch["name"] not in known), None)
        return Found(found, sure=True) if found else None

    def holds(self, provider_id: str, names: Collection[str]) -> bool | None:
        return holds_names(self.progress(provider_id), self.results(provider_id), names)

    def progress(self, provider_id: str) -> Progress:
        batch = self._batch(provider_id)
        made, ended = moment(_metadata(batch).get("createTime")), moment(_metadata(batch).get("endTime"))
        expires = made + _LIFETIME if made else None
        match _state(batch):
            case "SUCCEEDED" | "CANCELLED" | "EXPIRED":
                return Progress("ended", expires_at=expires, ended_at=ended)
            case "FAILED":
                error = batch.get("error") or {}
                text = str(error.get("message") or "no reason given")
                return Progress("failed", text, error.get("code") == _EXHAUSTED, expires, ended)
        return Progress("open", expires_at=expires)

    def results(self, provider_id: str) -> Generator[ItemResult, None, None]:
        batch = self._batch(provider_id)
        output = _metadata(batch).get("output") or batch.get("response") or {}
        if _state(batch) not in _ENDED or (_state(batch) == "SUCCEEDED" and not output):
            raise TryLater("The batch has no results yet.")
        if output.get("responsesFile"):
            with self._downloaded(output["responsesFile"]) as file:
                yield from read_results(chunks_of(file), read_line, provider_id)
        inlined = (output.get("inlinedResponses") or {}).get("inlinedResponses") or []
        yield from read_results((json.dumps(entry).encode() + b"\n" for entry in inlined), read_line, provider_id)

    def cancel(self, provider_id: str) -> None:
        cancel_running(
            lambda: _state(self._batch(provider_id)) not in _ENDED,
            lambda: self._call("POST", f"{provider_id}:cancel"),
        )

    def close(self) -> None:
        self._http.close()

    @cached_property
    def _files(self) -> Any:
        """The SDK's files, which are seldom needed; making its client takes a while."""
        options = types.HttpOptions(
            base_url=self._account.base_url,
            api_version=_VERSION,
            headers=dict(self._account.headers),
            timeout=int((TIMEOUT.read or 0) * 1000),
            httpx_client=self._http,
        )
        return genai.Client(vertexai=False, api_key=self._account.key, http_options=options).files

    def _create(self, parcel: Parcel, config: Iterable[bytes]) -> str:
        model = parcel.model if "/" in parcel.model else f"models/{parcel.model}"
        with spooled(request_body(parcel, config)) as body:
            path = f"{model}:batchGenerateContent"
            headers = {**parcel.headers, "content-type": "application/json"}
            return str(self._call("POST", path, "name", creating=True, content=body, headers=headers)["name"])

    def _batch(self, provider_id: str) -> dict[str, Json]:
        return self._call("GET", provider_id, "name")

    def _call(self, method: str, path: str, *needed: str, creating: bool = False, **how: Any) -> dict[str, Json]:
        with self._told_apart(creating=creating):
            answer = self._http.request(method, f"{self._base}/{path}", **how)
            return as_object(answer.raise_for_status(), *needed)

    def _upload(self, parcel: Parcel, file: IO[bytes]) -> str:
        # The SDK raises KeyError when the answer to an upload lacks what it needs.
        with self._told_apart():
            try:
                config = {"mime_type": "application/jsonl", "display_name": mark(parcel)}
                return str(self._files.upload(file=file, config=config).name)
            except KeyError:
                raise TryLater("The upload was not completed.") from None

    @contextmanager
    def _downloaded(self, name: str) -> Iterator[IO[bytes]]:
        with TemporaryFile() as file:
            with self._told_apart():
                self._files.download(file=name, destination=file)
            file.seek(0)
            yield file

    def _discard(self, name: str) -> None:
        """A file that stays behind costs nothing and goes in two days."""
        with suppress(TryLater, Refused), self._told_apart():
            self._files.delete(name=name)

    def _told_apart(self, *, creating: bool = False) -> AbstractContextManager[None]:
        return told_apart("google", self._account.key, errors.APIError, creating=creating)


def _metadata(batch: Mapping[str, Json]) -> dict[str, Json]:
    return batch.get("metadata") or {}


def _state(batch: Mapping[str, Json]) -> str:
    """The state without its prefix, of which there are two. Before it has one, a batch is pending."""
    stated = str(_metadata(batch).get("state") or "PENDING")
    return stated.rpartition("_STATE_")[2]
