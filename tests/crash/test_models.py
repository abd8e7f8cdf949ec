"""Workers killed at each boundary between a row and a provider: nothing is lost, and nothing is paid twice but what the
text of a test says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightdesk.store import calls, tasks
from tests.crash.asking import KILLED, METERED_AS, PROVIDERS, AskingScene, asking_scene

pytestmark = pytest.mark.timeout(300)

# The way of a wave: its row, the mark that it is about to be sent, the provider's batch, its id in the row; then asking
# after it, its results in the calls with their money, its end in the row.
_WAY = (
    "batch-formed",
    "batch-intended",
    "batch-created",
    "batch-saved",
    "batch-polled",
    "batch-results",
    "batch-closed",
)
_WAVE = 4
_SECONDS = 90
_ADOPTED = "a batch that an interrupted try has left at the provider was adopted"
_LOST = "a live request was lost with its worker; its worst case counts as spent, and it is sent again"


@pytest.fixture
def scene(tmp_path: Path, sqlite_url: str) -> Iterator[AskingScene]:
    with asking_scene(tmp_path / "house", sqlite_url, wave=_WAVE, batch_seconds=0.3) as scene:
        yield scene


def _killed(scene: AskingScene, failpoint: str, provider: str, **settings: str) -> None:
    doomed = scene.worker(f"{failpoint}:{provider}", **settings)
    assert doomed.wait(_SECONDS) == KILLED, doomed.output()


def _finish(scene: AskingScene, count: int) -> None:
    """A worker that nothing kills brings all to its end: each task has its own answer."""
    scene.worker()
    scene.wait_for({"done": count}, _SECONDS)
    results = {row.key: row.result for row in scene.read(sa.select(tasks.c.key, tasks.c.result))}
    assert results == {name: f"the answer to {name}, turn 0" for name in results}


def _names(provider: str, count: int) -> list[str]:
    return [f"{provider} {number}" for number in range(count)]


def _assert_each_ran(scene: AskingScene, lane: str, runs: dict[str, int], repeated: int = 0) -> None:
    meter = scene.meter()
    assert meter["by"] == {f"{METERED_AS[provider]}/{lane}": count for provider, count in sorted(runs.items())}
    assert meter["repeated"] == repeated
    scene.assert_batches_known()
    scene.assert_paid()


@pytest.mark.parametrize("failpoint", _WAY)
def test_a_batch_is_paid_once_wherever_its_worker_is_killed(scene: AskingScene, failpoint: str) -> None:
    """For each provider a worker dies there; the next one takes up what it left, besides a wave of its own."""
    for provider in PROVIDERS:
        scene.add(f"{provider}-batch", _names(provider, _WAVE))
        _killed(scene, failpoint, provider)
    _finish(scene, 3 * _WAVE)
    _assert_each_ran(scene, "batch", dict.fromkeys(PROVIDERS, _WAVE))
    assert [len(scene.batches_at(provider)) for provider in PROVIDERS] == [1, 1, 1]
    assert scene.causes("batch") == (3 * [_ADOPTED] if failpoint == "batch-created" else [])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_is_paid_once_though_each_that_takes_it_up_is_killed_one_step_further(
    scene: AskingScene, provider: str
) -> None:
    """One wave; a worker dies with the batch made, the next when it has found it and not yet kept its id."""
    scene.add(f"{provider}-batch", _names(provider, _WAVE))
    for failpoint in ("batch-created", "batch-adopted", "batch-results"):
        _killed(scene, failpoint, provider)
    _finish(scene, _WAVE)
    _assert_each_ran(scene, "batch", {provider: _WAVE})
    assert len(scene.batches_at(provider)) == 1


def test_a_file_that_was_uploaded_but_made_no_batch_costs_nothing(tmp_path: Path, sqlite_url: str) -> None:
    """OpenAI makes every batch from a file; Gemini does of one that is large."""
    with asking_scene(tmp_path / "house", sqlite_url, wave=1, batch_seconds=0.3) as scene:
        for provider, kilobytes in (("openai", 0), ("google", 15_000)):
            scene.add(f"{provider}-batch", [provider], kilobytes=kilobytes)
            _killed(scene, "batch-uploaded", provider)
            assert scene.batches_at(provider) == set()
        _finish(scene, 2)
        _assert_each_ran(scene, "batch", {"openai": 1, "google": 1})


def test_results_that_were_read_in_part_are_kept_and_the_rest_is_read(tmp_path: Path, sqlite_url: str) -> None:
    with asking_scene(tmp_path / "house", sqlite_url, wave=250, batch_seconds=0.3) as scene:
        scene.add("openai-batch", _names("openai", 250))
        _killed(scene, "batch-results", "openai")
        [(kept,)] = scene.read(sa.select(sa.func.count()).where(calls.c.status == "done"))
        assert 0 < kept < 250
        _finish(scene, 250)
        _assert_each_ran(scene, "batch", {"openai": 250})
        assert len(scene.batches_at("openai")) == 1


def _kill_live(scene: AskingScene, failpoint: str) -> None:
    """For each provider the first of three tasks, which ask live one after the other, is killed there."""
    for provider in PROVIDERS:
        scene.add(f"{provider}-live", _names(provider, 3))
        _killed(scene, failpoint, provider, worker_concurrency="1")
    _finish(scene, 9)


def test_a_live_call_that_was_killed_before_it_was_sent_runs_once_and_counts_as_if_it_were_lost(
    scene: AskingScene,
) -> None:
    """Its row cannot tell whether it was sent: its worst case stays spent, so that no cap is ever crossed."""
    _kill_live(scene, "call-sending")
    _assert_each_ran(scene, "live", dict.fromkeys(PROVIDERS, 3))
    assert scene.causes("call") == 3 * [_LOST]


def test_a_live_call_that_was_killed_between_its_answer_and_its_row_runs_twice(scene: AskingScene) -> None:
    """No provider takes a key that would make a live request exactly-once: the answer died with its worker, so that it
    is asked again and paid again. Both are counted: one at its worst case, the other as it was."""
    _kill_live(scene, "call-answered")
    _assert_each_ran(scene, "live", dict.fromkeys(PROVIDERS, 4), repeated=3)
    assert scene.causes("call") == 3 * [_LOST]


def test_a_live_call_whose_row_was_written_is_answered_from_it(scene: AskingScene) -> None:
    _kill_live(scene, "call-landed")
    _assert_each_ran(scene, "live", dict.fromkeys(PROVIDERS, 3))
    assert scene.causes("call") == []


def test_an_answer_is_progress_so_that_kills_between_the_answers_make_no_poison(scene: AskingScene) -> None:
    scene.add("openai-live", ["long"], turns=4)
    for _ in range(3):
        _killed(scene, "call-landed", "openai", worker_dispatches="2")
    scene.worker(worker_dispatches="2")
    scene.wait_for({"done": 1}, _SECONDS)
    _assert_each_ran(scene, "live", {"openai": 4})
