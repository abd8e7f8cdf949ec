"""What a provider's refusal or silence means is told apart, and no key is in what is told; large batches stay small
in memory."""

import logging
import socket
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime

import httpx2
import pytest

from nightdesk.model.providers.base import Account, BatchClient, Item, Parcel, Refused, Trouble, TryLater, Unknown
from nightdesk.model.providers.batching import batch_client
from tests.model.batch_worlds import ENDPOINTS, KEY, PROVIDERS, Echo, account, echoing, parcel, question, world_of

pytestmark = pytest.mark.parametrize("provider", PROVIDERS)
_MODULES = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}


@pytest.fixture
def echo() -> Iterator[Echo]:
    with echoing() as echo:
        yield echo


@pytest.fixture
def client(provider: str, echo: Echo) -> Iterator[BatchClient]:
    with closing(batch_client(provider, account(provider, echo.url))) as client:
        yield client


def _told(echo: Echo, status: int, **headers: str) -> None:
    echo.status, echo.headers = status, headers
    echo.body = f'{{"error": {{"type": "t", "message": "no, {KEY}"}}}}'.encode()


def _after_sending(provider: str) -> type[Exception]:
    """What a lost answer means. OpenAI's first is to the file, which may be sent again."""
    return TryLater if provider == "openai" else Unknown


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(400, "invalid"), (413, "invalid"), (401, "credentials"), (403, "credentials"), (402, "spend")],
)
def test_a_refusal_says_what_kind_of_trouble_it_is(
    provider: str, echo: Echo, client: BatchClient, status: int, trouble: Trouble
) -> None:
    _told(echo, status)
    with pytest.raises(Refused) as refused:
        client.create(parcel(ENDPOINTS[provider], 2))
    assert refused.value.trouble == trouble
    with pytest.raises(Refused):
        client.progress("batches/1")


@pytest.mark.parametrize(("status", "seconds"), [(429, "7"), (529, "2.5")])
def test_a_provider_that_turns_a_batch_away_is_asked_again_when_it_says(
    provider: str, echo: Echo, client: BatchClient, status: int, seconds: str
) -> None:
    _told(echo, status, **{"retry-after": seconds})
    with pytest.raises(TryLater) as later:
        client.create(parcel(ENDPOINTS[provider], 2))
    assert later.value.retry_after == float(seconds)


def test_a_provider_that_cannot_be_reached_has_made_nothing(provider: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with closing(batch_client(provider, account(provider, url))) as client, pytest.raises(TryLater):
            client.create(parcel(ENDPOINTS[provider], 2))


def test_an_address_that_is_none_is_refused(provider: str) -> None:
    with closing(batch_client(provider, Account("nowhere", KEY))) as client, pytest.raises(Refused):
        client.create(parcel(ENDPOINTS[provider], 2))


def test_an_account_without_money_is_told_from_one_that_asks_too_fast(provider: str) -> None:
    with world_of(provider) as world:
        world.once("create_refused", status=429, seconds=3)
        with pytest.raises(TryLater) as later:
            world.client.create(world.parcel(2))
        assert later.value.retry_after == 3
        world.once("spend_stop")
        with pytest.raises(Refused) as refused:
            world.client.create(world.parcel(2))
        assert refused.value.trouble == "spend"
        assert world.client.find(world.parcel(2), frozenset()) is None


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_a_server_error_leaves_open_whether_the_batch_was_made(provider: str, status: int) -> None:
    with world_of(provider) as world:
        world.once("create_lost", status=status)
        with pytest.raises(Unknown):
            world.client.create(world.parcel(2))
        assert world.client.find(world.parcel(2), frozenset()) is not None


@pytest.mark.parametrize("body", [b"<html>Welcome to the hotel</html>", b"[]", b'{"half": ', b"{}"])
def test_an_answer_that_makes_no_sense_leaves_it_open_too(
    provider: str, echo: Echo, client: BatchClient, body: bytes
) -> None:
    echo.body = body
    with pytest.raises(_after_sending(provider)):
        client.create(parcel(ENDPOINTS[provider], 2))
    with pytest.raises(TryLater):
        client.progress("batches/1")


@pytest.mark.parametrize("how", [{"silent": True}, {"status": 0}])
def test_silence_leaves_it_open(provider: str, how: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"nightdesk.model.providers.{_MODULES[provider]}_batches.TIMEOUT", httpx2.Timeout(0.2))
    with (
        echoing(**how) as echo,
        closing(batch_client(provider, account(provider, echo.url))) as client,
        pytest.raises(_after_sending(provider)),
    ):
        client.create(parcel(ENDPOINTS[provider], 2))


def test_a_refused_batch_leaves_no_file_behind(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightdesk.model.providers.gemini_batches._INLINE_BYTES", 0)
    with world_of(provider) as world:
        world.once("create_refused", status=400)
        with pytest.raises(Refused):
            world.client.create(world.parcel(2))
        assert not world.simulator.files.all()


@pytest.mark.parametrize("key", ["", "   ", "sk-ü", "sk-a\nb"])
def test_a_key_that_no_header_takes_is_refused_at_once(provider: str, key: str) -> None:
    with pytest.raises(Refused) as refused:
        batch_client(provider, Account("http://x", key))
    assert refused.value.trouble == "credentials"
    assert not key.strip() or key not in str(refused.value)


def test_the_key_is_in_no_exception_and_in_no_log(
    provider: str,
    echo: Echo,
    client: BatchClient,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    _told(echo, 401)
    with pytest.raises(Refused) as refused:
        client.create(parcel(ENDPOINTS[provider], 2))
    told = "".join(traceback.format_exception(refused.value)) + repr(account(provider, "http://x"))
    assert "no, ***" in told
    assert KEY not in told + caplog.text + "".join(capsys.readouterr())


def test_the_headers_of_account_and_parcel_are_sent(provider: str, echo: Echo) -> None:
    known = Account(account(provider, echo.url).base_url, KEY, {"x-workspace": "w1"})
    with closing(batch_client(provider, known)) as client:
        client.create(parcel(ENDPOINTS[provider], 2, headers={"anthropic-version": "2023-06-01", "x-beta": "b"}))
    _, path, headers = echo.asked[-1]
    assert path.endswith(("batches", ":batchGenerateContent"))
    assert (headers["x-workspace"], headers["x-beta"]) == ("w1", "b")
    assert headers["anthropic-version"] == "2023-06-01"
    assert len([name for name in headers if KEY in headers[name]]) == 1


def test_ten_thousand_items_are_sent_in_little_memory(provider: str, client: BatchClient) -> None:
    endpoint = ENDPOINTS[provider]
    items = (Item(f"item-{number}", question(endpoint, "word " * 400)) for number in range(10_000))
    large = Parcel("parcel-1", endpoint, "sim-1", {}, datetime.now(UTC), items, 10_000)
    tracemalloc.start()
    try:
        client.create(large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


def test_a_key_follows_no_redirect_to_another_host(provider: str, echo: Echo, client: BatchClient) -> None:
    with echoing() as other:
        echo.status, echo.headers = 307, {"location": other.url.replace("127.0.0.1", "localhost") + "/elsewhere"}
        with suppress(TryLater, Refused):  # what is said there is no batch
            client.progress("batches/1" if provider == "google" else "batch-1")
        [(_, path, headers)] = other.asked
    assert path == "/elsewhere"
    assert KEY not in str(headers)
