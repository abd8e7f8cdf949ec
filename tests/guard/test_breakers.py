"""Who keeps failing is left alone, then tried by one caller; what only a person can mend waits for a person."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nightdesk.clock import SetClock
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard import breakers
from nightdesk.guard.breakers import Breaker, Latencies, Verdict, list_breakers, reset, shut_lanes
from nightdesk.settings import BreakerSettings
from nightdesk.store import Database, events

AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
RULES = BreakerSettings()
HAIKU = ("anthropic", "haiku", "live")
BATCH = ("anthropic", "*", "batch")


def _at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def _fail(db: Database, *moments: float, key: tuple[str, str, str] = HAIKU, **more: Any) -> list[bool]:
    opened = []
    for moment in moments:
        with db.write() as conn:
            opened.append(breakers.failed(db, conn, _at(moment), *key, "HTTP 500", **more))
    return opened


def _succeed(db: Database, moment: float, key: tuple[str, str, str] = HAIKU, **more: Any) -> None:
    with db.write() as conn:
        breakers.succeeded(db, conn, _at(moment), *key, **more)


def _latch(db: Database, provider: str, model: str, lane: str, why: str = "HTTP 401") -> bool:
    with db.write() as conn:
        return breakers.latch(db, conn, AT, provider, model, lane, why)


def _allow(db: Database, moment: float, key: tuple[str, str, str] = HAIKU) -> Verdict:
    with db.write() as conn:
        return breakers.allow(db, conn, _at(moment), *key)


def _look(db: Database, moment: float, key: tuple[str, str, str] = HAIKU) -> Verdict:
    with db.read() as conn:
        return breakers.look(conn, _at(moment), *key)


def _slow(db: Database, moment: float) -> bool:
    with db.write() as conn:
        return breakers.open_for_slowness(db, conn, _at(moment), *HAIKU, "slow")


def _shut(db: Database, moment: float, model: str = "haiku") -> dict[str, str]:
    with db.read() as conn:
        return shut_lanes(conn, _at(moment), "anthropic", model)


def _states(db: Database) -> dict[tuple[str, str, str], str]:
    return {(breaker.provider, breaker.model, breaker.lane): breaker.state for breaker in list_breakers(db)}


def _events(db: Database) -> list[Any]:
    with db.read() as conn:
        return list(conn.execute(events.select().where(events.c.kind == "breaker").order_by(events.c.id)))


def test_what_has_not_failed_is_let_through_and_leaves_no_row(db: Database) -> None:
    _succeed(db, 0)
    assert _allow(db, 0) == _look(db, 0) == Verdict(True)
    assert list_breakers(db) == []


def test_five_errors_within_two_minutes_open_it_for_ten(db: Database) -> None:
    assert _fail(db, 0, 30, 60, 90) == [False] * 4
    assert _allow(db, 100).allowed
    assert _fail(db, 120) == [True]
    assert _allow(db, 121) == Verdict(False, until=_at(720), why="HTTP 500")
    assert _allow(db, 719.9).allowed is False


def test_errors_that_are_further_apart_do_not(db: Database) -> None:
    assert _fail(db, *range(0, 400, 31)) == [False] * 13
    [breaker] = list_breakers(db)
    assert (breaker.state, breaker.failures, len(breaker.failed_at)) == ("closed", 13, 5)
    assert _fail(db, 390) == [True]


def test_an_answer_in_between_ends_the_row_of_errors(db: Database) -> None:
    _fail(db, 0, 1, 2, 3)
    _succeed(db, 4)
    assert _fail(db, 5, 6, 7, 8) == [False] * 4
    assert _fail(db, 9) == [True]


def test_errors_may_be_told_of_out_of_order(db: Database) -> None:
    assert _fail(db, 200, 0, 210, 220, 230) == [False] * 5
    assert _fail(db, 205) == [True]


def test_the_rules_are_those_of_the_settings(db: Database) -> None:
    rules = BreakerSettings(errors=2, window_seconds=10, open_seconds=60)
    assert _fail(db, 0, 11, rules=rules) == [False, False]
    assert _fail(db, 20, rules=rules) == [True]
    assert _allow(db, 21).until == _at(80)


def test_each_model_and_lane_has_its_own(db: Database) -> None:
    """A batch lane that is stuck blocks no live call."""
    _fail(db, *range(5), key=BATCH)
    assert not _allow(db, 10, ("anthropic", "haiku", "batch")).allowed
    assert not _allow(db, 10, ("anthropic", "opus", "batch")).allowed
    assert _allow(db, 10).allowed
    assert _allow(db, 10, ("openai", "haiku", "batch")).allowed
    _fail(db, *range(20, 25))
    assert not _allow(db, 30).allowed
    assert _allow(db, 30, ("anthropic", "opus", "live")).allowed
    assert _shut(db, 30) == {"batch": "HTTP 500", "live": "HTTP 500"}
    assert _shut(db, 30, "opus") == {"batch": "HTTP 500"}


def test_when_its_time_is_over_one_caller_tries(db: Database) -> None:
    _fail(db, *range(5))
    assert _look(db, 604) == Verdict(True)
    assert _shut(db, 604) == {}
    assert _allow(db, 604) == Verdict(True, trial=True)
    assert _allow(db, 605) == Verdict(False, until=_at(620), why="HTTP 500")
    assert _look(db, 605) == Verdict(False, until=_at(620), why="HTTP 500")
    assert _shut(db, 605) == {"live": "HTTP 500"}


def test_a_trial_that_is_answered_closes_it(db: Database) -> None:
    _fail(db, *range(5))
    _allow(db, 604)
    _succeed(db, 610, sent_at=_at(604))
    assert [_allow(db, 611), _allow(db, 611)] == [Verdict(True)] * 2
    assert _fail(db, 612, 613, 614, 615) == [False] * 4


def test_a_trial_that_fails_opens_it_for_as_long_again(db: Database) -> None:
    _fail(db, *range(5))
    _allow(db, 604)
    assert _fail(db, 610, sent_at=_at(604)) == [True]
    assert _allow(db, 611).until == _at(1210)
    assert _allow(db, 1210).trial


def test_a_trial_that_is_slow_is_lost(db: Database) -> None:
    assert _slow(db, 0)
    _allow(db, 600)
    _succeed(db, 800, sent_at=_at(600), seconds=200.4)
    assert _allow(db, 801) == Verdict(False, until=_at(1400), why="the trial took 200 s")
    _allow(db, 1400)
    _succeed(db, 1410, sent_at=_at(1400), seconds=10)
    assert _states(db) == {HAIKU: "closed"}


def test_a_trial_that_is_never_heard_of_again_is_given_anew(db: Database) -> None:
    _fail(db, *range(5))
    assert [_allow(db, moment).trial for moment in (604, 1203, 1204, 1205)] == [True, False, True, False]
    assert _allow(db, 1800).until == _at(1804)


def test_calls_sent_before_it_opened_change_nothing(db: Database) -> None:
    _fail(db, *range(5))
    assert _fail(db, 10) == [False]
    _succeed(db, 11)
    assert _allow(db, 12).until == _at(604)


def test_calls_sent_before_the_trial_do_not_decide_it(db: Database) -> None:
    _fail(db, *range(5))
    _allow(db, 604)
    assert _fail(db, 605, sent_at=_at(3)) == [False]
    _succeed(db, 606, sent_at=_at(3), seconds=603)
    assert _states(db) == {HAIKU: "trial"}
    _succeed(db, 607, sent_at=_at(604))
    assert _states(db) == {HAIKU: "closed"}


def test_slowness_opens_it_once(db: Database) -> None:
    assert [_slow(db, 0), _slow(db, 5)] == [True, False]
    assert _allow(db, 10) == Verdict(False, until=_at(600), why="slow")


def test_a_latch_holds_until_a_person_resets_it(db: Database, clock: SetClock) -> None:
    assert [_latch(db, *HAIKU), _latch(db, *HAIKU, why="HTTP 403")] == [True, False]
    assert _fail(db, *range(5)) == [False] * 5
    _succeed(db, 9)
    assert _slow(db, 9) is False
    assert _allow(db, 10**8) == Verdict(False, until=None, why="HTTP 401")
    assert _shut(db, 10**8) == {"live": "HTTP 401"}
    [was] = reset(db, clock, "anthropic", why="new key", actor="cli:eve")
    assert (was.state, was.why) == ("latched", "HTTP 401")
    assert _allow(db, 11) == Verdict(True)


def test_what_is_open_or_on_trial_can_be_latched(db: Database) -> None:
    _fail(db, *range(5))
    assert _latch(db, *HAIKU)
    _fail(db, *range(5), key=BATCH)
    _allow(db, 604, BATCH)
    assert _latch(db, *BATCH)
    assert set(_states(db).values()) == {"latched"}


def test_a_latch_may_cover_all_models_and_lanes(db: Database) -> None:
    _fail(db, *range(5))
    _latch(db, "anthropic", "*", "*", why="credit is exhausted")
    refused = Verdict(False, why="credit is exhausted")
    assert _allow(db, 10) == _allow(db, 700) == _allow(db, 10, ("anthropic", "opus", "flex")) == refused
    assert _allow(db, 10, ("openai", "gpt", "live")).allowed
    assert _shut(db, 10)["*"] == "credit is exhausted"


def test_the_longer_of_two_breakers_counts(db: Database) -> None:
    _fail(db, *range(100, 105), key=BATCH)
    _fail(db, *range(5), key=("anthropic", "haiku", "batch"))
    assert _allow(db, 650, ("anthropic", "haiku", "batch")).until == _at(704)


def test_a_reset_chooses_by_provider_model_and_lane(db: Database, clock: SetClock) -> None:
    for key in (HAIKU, BATCH, ("anthropic", "opus", "live"), ("openai", "gpt", "flex")):
        _latch(db, *key)
    _succeed(db, 0, ("gemini", "pro", "live"))

    def again(*chosen: str) -> list[tuple[str, str, str]]:
        was = reset(db, clock, *chosen, why="mended", actor="cli")
        return [(breaker.provider, breaker.model, breaker.lane) for breaker in was]

    assert again("anthropic", "haiku") == [HAIKU]
    assert again("*", "*", "batch") == [BATCH]
    assert again("anthropic") == [("anthropic", "opus", "live")]
    assert again("anthropic") == []
    assert again("*") == [("openai", "gpt", "flex")]


def test_a_reset_forgets_errors_that_have_not_opened_it_yet(db: Database, clock: SetClock) -> None:
    _fail(db, 0, 1, 2, 3)
    assert [breaker.failures for breaker in reset(db, clock, "anthropic", why="mended", actor="cli")] == [4]
    assert _fail(db, 4) == [False]
    assert _events(db) == []


def test_a_reset_needs_a_reason_and_a_name_that_is_known(db: Database, clock: SetClock) -> None:
    with pytest.raises(Invalid, match="why: is empty"):
        reset(db, clock, "anthropic", why=" ", actor="cli")
    with pytest.raises(NotFound, match="no breaker of anthropic; nothing has failed yet"):
        reset(db, clock, "anthropic", why="mended", actor="cli")
    _latch(db, *HAIKU)
    with pytest.raises(NotFound, match='no breaker of antropic; did you mean "anthropic"'):
        reset(db, clock, "antropic", why="mended", actor="cli")
    with pytest.raises(NotFound, match='no breaker of anthropic haiko live; did you mean "anthropic haiku live"'):
        reset(db, clock, "anthropic", "haiko", "live", why="mended", actor="cli")
    assert _states(db) == {HAIKU: "latched"}


def test_every_change_of_state_is_an_event(db: Database, clock: SetClock) -> None:
    _fail(db, *range(5))
    _allow(db, 604)
    _fail(db, 605)
    _allow(db, 1205)
    _succeed(db, 1206)
    _latch(db, *HAIKU)
    reset(db, clock, "anthropic", why="new key", actor="cli:eve")
    told = [(event.prior_state, event.state, event.cause, event.actor) for event in _events(db)]
    assert told == [
        ("closed", "open", "HTTP 500", "worker"),
        ("open", "trial", "its time is over: one trial", "worker"),
        ("trial", "open", "HTTP 500", "worker"),
        ("open", "trial", "its time is over: one trial", "worker"),
        ("trial", "closed", "a call was answered", "worker"),
        ("closed", "latched", "HTTP 401", "worker"),
        ("latched", "closed", "new key", "cli:eve"),
    ]
    assert _events(db)[0].detail == {
        "provider": "anthropic", "model": "haiku", "lane": "live", "until": _at(604).isoformat()
    }  # fmt: skip


def test_the_newest_change_is_listed_first(db: Database) -> None:
    _fail(db, 0, key=("openai", "gpt", "live"))
    _fail(db, *range(1, 6))
    first, second = list_breakers(db)
    assert first == Breaker(*HAIKU, "open", 5, [_at(n).timestamp() for n in range(1, 6)], _at(605), "HTTP 500", _at(5))
    assert (second.provider, second.state, second.failures) == ("openai", "closed", 1)


def test_many_threads_get_one_trial(db: Database) -> None:
    _fail(db, *range(5))
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda _: _allow(db, 700), range(24)))
    assert [verdict.trial for verdict in verdicts if verdict.allowed] == [True]
    assert {verdict.until for verdict in verdicts if not verdict.allowed} == {_at(715)}


def test_many_threads_open_it_once(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda number: _fail(db, number)[0], range(24)))
    assert opened.count(True) == 1
    assert len(_events(db)) == 1


def _noted(seconds: Sequence[float], every: float = 1) -> Latencies:
    latencies = Latencies()
    for number, taken in enumerate(seconds):
        latencies.note(_at(number * every), *HAIKU, taken)
    return latencies


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [([200] * 19, False), ([200] * 20, True), ([1] * 19 + [200], False), ([1] * 18 + [200] * 2, True)],
)
def test_answers_are_slow_when_more_than_one_in_twenty_passes_the_bound(seconds: Sequence[float], slow: bool) -> None:
    assert _noted(seconds).slow(_at(60), *HAIKU, 120) is slow


def test_only_the_last_answers_of_this_lane_count() -> None:
    assert _noted([200] * 40 + [1] * 50).slow(_at(100), *HAIKU, 120) is False
    assert _noted([200] * 20, every=60).slow(_at(1200), *HAIKU, 120) is False
    assert _noted([200] * 20).slow(_at(60), *BATCH, 120) is False


def test_having_been_slow_it_starts_over() -> None:
    latencies = _noted([200] * 20)
    assert [latencies.slow(_at(60), *HAIKU, 120) for _ in range(2)] == [True, False]
