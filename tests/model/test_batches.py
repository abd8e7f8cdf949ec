"""A batch goes out, is followed, and its results come back, whatever state its lines are in."""

import json
import tracemalloc
from collections.abc import Iterator

import pytest

from nightdesk.model.providers import batching
from nightdesk.model.providers.base import ItemResult, TryLater
from nightdesk.model.simulator import Behaviour
from tests.model.batch_worlds import PROVIDERS, World, parcel, world_of


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Gemini's batches go as files, whose results can go wrong in more ways than those inside an answer."""
    monkeypatch.setattr("nightdesk.model.providers.gemini_batches._INLINE_BYTES", 0)
    with world_of(request.param) as world:
        yield world


def _names(count: int) -> set[str]:
    return {f"parcel-1-{number}" for number in range(count)}


def test_every_item_comes_back_with_its_own_answer(world: World) -> None:
    provider_id = world.client.create(world.parcel(40))
    begun = world.client.progress(provider_id)
    world.advance(60)
    ended = world.client.progress(provider_id)
    found = list(world.client.results(provider_id))
    assert (begun.state, ended.state) == ("open", "ended")
    assert begun.expires_at is not None
    assert ended.ended_at is not None
    assert [result.name for result in found] != sorted(result.name for result in found), "they are shuffled"
    assert {result.name for result in found} == _names(40)
    assert {(result.kind, result.status) for result in found} == {("done", 200)}
    assert len({json.dumps(result.body) for result in found}) == 40


def test_an_answer_is_what_the_live_endpoint_would_give(world: World) -> None:
    results = world.results(world.ended(1))
    expected = {"anthropic": "content", "openai": "choices", "google": "candidates"}[world.provider]
    assert results["parcel-1-0"].body[expected]


def test_openai_takes_responses_too() -> None:
    with world_of("openai") as world:
        provider_id = world.client.create(parcel("responses", 3))
        world.advance(60)
        results = world.results(provider_id)
    assert set(results) == _names(3)
    assert results["parcel-1-0"].body["output"]


def test_there_are_no_results_before_the_end(world: World) -> None:
    provider_id = world.client.create(world.parcel(2))
    with pytest.raises(TryLater):
        list(world.client.results(provider_id))


def test_a_line_may_come_twice(world: World) -> None:
    world.once("results_duplicate")
    found = list(world.client.results(world.ended(10)))
    assert len(found) == 11
    assert {result.name for result in found} == _names(10)


def test_a_line_may_be_missing(world: World) -> None:
    world.once("results_missing")
    assert len(world.results(world.ended(10))) == 9


def test_a_name_that_nobody_knows_is_handed_on(world: World) -> None:
    world.once("results_unknown")
    results = world.results(world.ended(10))
    assert len(results.keys() - _names(10)) == 1


def test_results_that_stop_in_the_middle_of_a_line_are_what_they_are(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.once("results_cut")
    results = world.results(world.ended(10))
    assert 0 < len(results) < 10
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["lines"] == 1


def test_a_connection_that_breaks_off_is_told(world: World) -> None:
    provider_id = world.ended(400)
    world.once("results_broken")
    with pytest.raises(TryLater):
        list(world.client.results(provider_id))
    assert len(world.results(provider_id)) == 400


def test_results_that_are_not_there_may_come_back(world: World) -> None:
    provider_id = world.ended(3)
    world.once("results_gone")
    with pytest.raises(TryLater):
        list(world.client.results(provider_id))
    assert len(world.results(provider_id)) == 3


@pytest.mark.parametrize("status", [400, 429, 500])
def test_an_item_that_failed_has_the_status_that_it_would_have_had_live(world: World, status: int) -> None:
    world.once("fail", share=0.3, status=status)
    results = world.results(world.ended(10))
    failed = [result for result in results.values() if result.kind == "error"]
    assert len(results) == 10
    assert {result.status for result in failed} == {status}
    assert len(failed) == 3
    assert all(result.body["error"]["message"] for result in failed)


def test_a_batch_that_expired_in_part_keeps_what_was_done(world: World) -> None:
    world.once("expire", share=0.5)
    results = world.results(world.ended(10))
    assert [result.kind for result in results.values()].count("done") == 5
    # Gemini leaves out what it did not come to.
    assert [result.kind for result in results.values()].count("expired") == (0 if world.provider == "google" else 5)


def test_what_was_done_before_it_was_cancelled_is_kept(world: World) -> None:
    provider_id = world.client.create(world.parcel(10))
    world.advance(5)
    world.client.cancel(provider_id)
    world.client.cancel(provider_id)
    world.advance(60)
    world.client.cancel(provider_id)
    kinds = [result.kind for result in world.results(provider_id).values()]
    assert world.client.progress(provider_id).state == "ended"
    assert 4 <= kinds.count("done") <= 6
    assert set(kinds) <= {"done", "cancelled"}


def test_a_batch_being_cancelled_is_open_and_may_be_cancelled_again(world: World) -> None:
    world.simulator.behaviour.cancel_seconds = 600
    provider_id = world.client.create(world.parcel(10))
    world.client.cancel(provider_id)
    world.client.cancel(provider_id)
    assert world.client.progress(provider_id).state == "open"


def test_a_new_batch_that_cannot_be_found_yet_is_no_loss(world: World) -> None:
    world.once("not_found")
    provider_id = world.client.create(world.parcel(2))
    with pytest.raises(TryLater):
        world.client.progress(provider_id)
    assert world.client.progress(provider_id).state == "open"


def test_openai_may_have_no_room_for_so_many_tokens() -> None:
    with world_of("openai", Behaviour(queued_tokens=10)) as world:
        progress = world.client.progress(world.client.create(world.parcel(20)))
    assert (progress.state, progress.no_room) == ("failed", True)
    assert "token_limit_exceeded" in progress.error


@pytest.mark.parametrize("provider", ["openai", "google"])
def test_a_batch_that_failed_says_why(provider: str) -> None:
    with world_of(provider) as world:
        world.once("batch_failed")
        progress = world.client.progress(world.client.create(world.parcel(2)))
    assert (progress.state, progress.no_room) == ("failed", False)
    assert progress.error


def test_a_small_batch_for_gemini_travels_inside_the_request() -> None:
    with world_of("google") as world:
        world.once("fail", share=0.3, status=400)
        results = world.results(world.ended(10))
        assert not world.simulator.files.all()
    assert set(results) == _names(10)
    assert sorted(result.status for result in results.values()) == [200] * 7 + [400] * 3


def test_results_are_read_in_little_memory() -> None:
    line = json.dumps({"n": "a", "text": "x" * 2000}).encode() + b"\n"
    tracemalloc.start()
    try:
        found = batching.read_results((line * 30 for _ in range(330)), lambda line: ItemResult(line["n"], "done"), "1")
        count, peak = sum(1 for _ in found), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 9_900
    assert peak < 1_000_000


def test_lines_are_put_together_from_pieces_and_what_is_no_result_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(batching, "_LONGEST_LINE", 60)
    too_long = b'{"n": "' + b"x" * 70 + b'"}'
    wrong = [b"no json", too_long, b'{"n": 1}', b"[]", b"[" * 50, b'{"n": NaN}']
    whole = b"\r\n".join([b'{"n": "a"}', b"", *wrong, b'{"n": "b"}'])
    for size in (1, 7, len(whole)):
        pieces = (whole[at : at + size] for at in range(0, len(whole), size))
        found = batching.read_results(pieces, lambda line: ItemResult(line["n"], "done"), "batch-1")
        assert [result.name for result in found] == ["a", "b"]
        assert json.loads(capsys.readouterr().err)["lines"] == len(wrong)
