"""What a provider must be able to do, for one request and for a batch of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from nightdesk.canonical import Json
from nightdesk.errors import Invalid
from nightdesk.model.asks import Ask, HttpRequest

# What a refused or failed request means for those that come after it.
Trouble = Literal["invalid", "credentials", "spend", "rate", "overload", "policy"]


@dataclass(frozen=True, slots=True)
class Learned:
    """What an answer's headers tell of a rate limit. `dimension` as in `rate_buckets`; times in seconds from now."""

    dimension: Literal["requests", "input_tokens", "output_tokens"]
    limit: float | None
    remaining: float | None
    resets_in: float | None


class Uncarried(Invalid):
    """The request cannot be carried, which its SDK can do something about when it is told so: by `answer`."""

    def __init__(self, problem: str, next_step: str, answer: Json) -> None:
        super().__init__(problem, [], next_step)
        self.answer = answer


class Provider(Protocol):
    """The wire protocol of one provider: pure functions over JSON, no network."""

    name: str
    key_variables: tuple[str, ...]
    url_variable: str
    default_url: str
    has_flex: bool

    def recognise(self, request: HttpRequest) -> Ask | None:
        """The ask in a request to one of this provider's model endpoints; None if it is none of them.

        Invalid if it is one, but cannot be carried (no JSON object, a batch or websocket of its own, background)."""

    def sent_key(self, headers: Mapping[str, str]) -> str | None:
        """The key that the SDK put into the request."""

    def auth_headers(self, key: str) -> dict[str, str]:
        """The headers that carry the key, for a request that we send."""

    def output_limit(self, ask: Ask) -> int | None:
        """The most output tokens that the request allows, over all answers it asks for; None if it states no limit."""

    def limited(self, ask: Ask, tokens: int) -> dict[str, Json]:
        """The body with this limit of output tokens stated, over all answers it asks for."""

    def with_model(self, ask: Ask, model: str) -> Ask:
        """The same question to another model of this provider."""

    def flexed(self, body: dict[str, Json]) -> dict[str, Json]:
        """The body that asks for the flex lane."""

    def tools(self, ask: Ask) -> list[str]:
        """The names of the tools that the request offers."""

    def completed(self, ask: Ask, answer: Json) -> Json:
        """The answer with what SDKs would otherwise invent at random (ids of Gemini's function calls) filled in."""

    def error(self, endpoint: str, status: int, message: str, code: str = "") -> Json:
        """An error body as this provider words it, so that its SDK raises its own exception."""

    def trouble(self, status: int, body: Json) -> Trouble:
        """What an error answer means."""

    def stream(self, ask: Ask, answer: Json) -> bytes:
        """The whole answer as the server-sent events that the SDK expects of a streamed request. An error is not
        streamed: it is answered as plain JSON with its status."""

    def learned(self, headers: Mapping[str, str], now: datetime) -> list[Learned]:
        """The rate limits that an answer's headers tell of. For `retry-after` see `headers.retry_after`."""


@dataclass(frozen=True, slots=True)
class Account:
    """Where batches go, and with which key. The key is read when it is needed and kept nowhere.

    `headers` go with every request, those that only look included: a workspace, an organisation, a project."""

    base_url: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch: its name there, and the body as it would be sent live (without streaming)."""

    name: str
    body: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Parcel:
    """A batch to be sent: `id` is ours, to find it again; `headers`, `endpoint` and `model` hold for every item."""

    id: str
    endpoint: str
    model: str
    headers: dict[str, str]
    created_at: datetime
    items: Iterable[Item]
    count: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How a batch stands. `open` also while it is being cancelled; `failed` means that nothing in it was run."""

    state: Literal["open", "ended", "failed"]
    error: str = ""
    # The provider has no room for it now (OpenAI's token_limit_exceeded): send it again later, nothing is wrong.
    no_room: bool = False
    expires_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item. `status` is an HTTP status for `done` and `error`; `body` is the answer's JSON."""

    name: str
    kind: Literal["done", "error", "expired", "cancelled"]
    status: int = 200
    body: Json = None


@dataclass(frozen=True, slots=True)
class Found:
    """A batch that the provider knows. `sure` if its name or metadata is ours; else only its size and time fit."""

    provider_id: str
    sure: bool


class TryLater(Exception):
    """The provider could not do it now, and it is certain that nothing was created or changed.

    `retry_after` is the pause in seconds that the provider asked for, if it did."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(Exception):
    """The provider will not do it; trying the same again is of no use. Carries what kind of trouble it is."""

    def __init__(self, message: str, trouble: Trouble) -> None:
        super().__init__(message)
        self.trouble = trouble


class Unknown(Exception):
    """It may or may not have been done (a time-out, a 5xx on creating): look before you do it again."""


class BatchClient(Protocol):
    """One provider's batches, through its official SDK with the SDK's own retries off. Blocking: call from a thread."""

    most_items: int
    most_bytes: int
    one_model: bool

    def create(self, parcel: Parcel) -> str:
        """Send the batch; the answer is the provider's id. Raises TryLater, Refused or Unknown."""

    def find(self, parcel: Parcel, known: frozenset[str]) -> Found | None:
        """The batch that an interrupted `create` may have left behind. `known` are ids that others have."""

    def holds(self, provider_id: str, names: Collection[str]) -> bool | None:
        """Whether an ended batch is the one with these items, from its first results. None: it has not ended."""

    def progress(self, provider_id: str) -> Progress:
        """How it stands. Raises TryLater, also for a 404: one soon after creating is not the truth."""

    def results(self, provider_id: str) -> Iterator[ItemResult]:
        """Every item's result, read as a stream, in any order and perhaps twice. A connection that breaks off raises
        TryLater; a line that cannot be read is skipped, so that its item is missing."""

    def cancel(self, provider_id: str) -> None:
        """Ask for it to be cancelled; cancelling what has ended does nothing."""

    def close(self) -> None:
        """Give back its connections. It can do nothing afterwards."""
