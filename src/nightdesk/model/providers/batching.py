"""What the batch clients of all providers share: spooling what is sent, reading what comes back line by line, and
telling what an SDK's exception means for those who sent a batch."""

import json
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import IO, Any

import httpx2

from nightdesk.canonical import Json
from nightdesk.model.providers.base import Account, BatchClient, ItemResult, Parcel, Progress, Refused, TryLater
from nightdesk.watch.logs import get_logger

log = get_logger(__name__)

# A provider may think for minutes about a batch of hundreds of megabytes before it answers.
TIMEOUT = httpx2.Timeout(300, connect=15)

_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
_LONGEST_LINE = 32 * 1024 * 1024
_CHUNK = 256 * 1024
_CLOCK_SKEW = timedelta(minutes=5)
_ENOUGH_TO_KNOW_A_BATCH = 20


def batch_client(provider: str, account: Account) -> BatchClient:
    """The batches of this provider. Its SDK, whose import takes a second, is imported no sooner."""
    if not (account.key.isascii() and account.key.isprintable() and account.key.strip()):
        raise Refused("The key is empty, or has characters that no header may carry.", "credentials")
    if provider == "anthropic":
        from nightdesk.model.providers.anthropic_batches import AnthropicBatches

        return AnthropicBatches(account)
    if provider == "openai":
        from nightdesk.model.providers.openai_batches import OpenAIBatches

        return OpenAIBatches(account)
    if provider == "google":
        from nightdesk.model.providers.gemini_batches import GeminiBatches

        return GeminiBatches(account)
    raise Refused(f"There are no batches with the provider {provider}.", "invalid")


def client_for(account: Account, **options: Any) -> httpx2.Client:
    """Follows redirects, as a provider may keep its files elsewhere; a key goes to no other host than its own."""
    home = httpx2.URL(account.base_url).host

    def leave_the_key_at_home(request: httpx2.Request) -> None:
        if request.url.host != home:
            for name in _KEY_HEADERS:
                request.headers.pop(name, None)

    hooks = {"request": [leave_the_key_at_home]}
    return httpx2.Client(timeout=TIMEOUT, follow_redirects=True, event_hooks=hooks, **options)


def dumped(value: Json) -> bytes:
    """JSON in the order in which it came, because the order of a schema's properties steers the model."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


@contextmanager
def spooled(chunks: Iterable[bytes]) -> Iterator[IO[bytes]]:
    """A nameless file with these bytes, standing at its beginning."""
    with tempfile.TemporaryFile() as file:
        try:
            file.writelines(chunks)
            file.seek(0)
        except OSError as error:
            raise TryLater(f"The batch could not be written to a temporary file: {error}.") from None
        yield file


def as_object(answer: httpx2.Response, *needed: str) -> dict[str, Json]:
    """The JSON object in an answer; ValueError if it is something else, such as a proxy's page."""
    value = json.loads(answer.content)
    if not isinstance(value, dict) or not all(value.get(name) is not None for name in needed):
        raise ValueError("this is not what was asked for")
    return value


def moment(value: Json) -> datetime | None:
    """A time as providers write it, as text or in seconds."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def made_since(
    parcel: Parcel,
    page_at: Callable[[str | None], tuple[list[Json], str | None]],
    created: Callable[[Json], Json],
) -> Iterator[Json]:
    """The batches made since the parcel, from pages with the newest first, until a page holds none.

    `page_at` takes the cursor that came with the page before, and answers with a page and the cursor to the next.
    """
    horizon = parcel.created_at - _CLOCK_SKEW
    cursor = None
    while True:
        page, cursor = page_at(cursor)
        fresh = [batch for batch in page if (moment(created(batch)) or horizon) >= horizon]
        yield from fresh
        if not fresh or not cursor:
            return


def holds_names(progress: Progress, results: Generator[ItemResult, None, None], names: Collection[str]) -> bool | None:
    with closing(results):
        if progress.state == "open":
            return None
        return any(result.name in names for result in islice(results, _ENOUGH_TO_KNOW_A_BATCH))


def cancel_running(is_running: Callable[[], bool], cancel: Callable[[], object]) -> None:
    """Cancel only what runs, and forgive a refusal if it ended in between."""
    if not is_running():
        return
    try:
        cancel()
    except Refused:
        if is_running():
            raise


def read_results(
    chunks: Iterable[bytes], read: Callable[[Json], ItemResult], provider_id: str
) -> Generator[ItemResult, None, None]:
    """The results in the lines of these bytes. Lines that cannot be read are counted and left out."""
    skipped = 0
    try:
        for line in _lines(chunks):
            result = _result(line, read)
            if result is None:
                skipped += 1
            else:
                yield result
    finally:
        if skipped:
            log.warning(
                "Lines of a batch's results could not be read; their items count as missing.",
                action="batch_lines_skipped",
                batch=provider_id,
                lines=skipped,
            )


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that are not blank; of one that is too long only an empty one is left."""
    held, too_long = bytearray(), False
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            too_long = too_long or len(held) + len(end) > _LONGEST_LINE
            line = b"" if too_long else bytes(held + end)
            if too_long or line.strip():
                yield line
            held, too_long = bytearray(), False
        too_long = too_long or len(held) + len(rest) > _LONGEST_LINE
        if too_long:
            held.clear()
        else:
            held += rest
    if too_long or held.strip():
        yield bytes(held)


def _result(line: bytes, read: Callable[[Json], ItemResult]) -> ItemResult | None:
    try:
        result = read(json.loads(line, parse_constant=_refuse_constant))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    name: object = result.name
    return result if isinstance(name, str) and name else None


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")
