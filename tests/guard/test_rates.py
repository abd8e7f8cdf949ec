"""Whoever takes is told how long to wait, so that what is sent keeps to the rate, in the order of asking."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from nightdesk.guard.limits import Address, Limit, Want, limits_for, queue_limits_for, wants_of
from nightdesk.guard.rates import Later, block, correct, give_back, learn, queue_down, queue_up, take
from nightdesk.settings import Settings
from nightdesk.store import Database, rate_buckets

AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
REQUESTS = Address("anthropic", "key", "*", "*", "requests")
TOKENS = Address("anthropic", "key", "haiku", "*", "input_tokens")
ONE = Want(REQUESTS, 1, capacity=2, per_second=0.5)
QUEUE = Limit(Address("openai", "key", "*", "*", "queued_tokens"), 100)


def _after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def _take(db: Database, *wants: Want, at: float = 0, patience: float = 60) -> float | Later:
    with db.write() as conn:
        return take(db, conn, _after(at), wants, patience)


def _level(db: Database, address: Address = REQUESTS) -> float:
    with db.read() as conn:
        found = conn.execute(
            sa.select(rate_buckets.c.level).where(
                rate_buckets.c.provider == address.provider, rate_buckets.c.dimension == address.dimension
            )
        )
        return float(found.scalar_one())


def _learn(db: Database, limit: float | None, remaining: float | None, resets_in: float | None, at: float = 0) -> None:
    with db.write() as conn:
        learn(db, conn, _after(at), REQUESTS, limit, remaining, resets_in)


def test_nothing_wanted_is_nothing_to_wait_for(db: Database) -> None:
    assert _take(db) == 0


def test_callers_past_the_capacity_are_paced(db: Database) -> None:
    assert [_take(db, ONE) for _ in range(6)] == [0, 0, 2, 4, 6, 8]


def test_the_refill_is_by_the_clock_and_ends_at_the_capacity(db: Database) -> None:
    for _ in range(4):
        _take(db, ONE)
    assert _take(db, ONE, at=6) == 0
    assert [_take(db, ONE, at=1000) for _ in range(3)] == [0, 0, 2]


def test_a_clock_that_goes_back_gives_nothing(db: Database) -> None:
    assert [_take(db, ONE, at=at) for at in (10, 10, 5)] == [0, 0, 7]


def test_the_strictest_of_several_buckets_counts(db: Database) -> None:
    tokens = Want(TOKENS, 100, capacity=150, per_second=10)
    assert [_take(db, ONE, tokens) for _ in range(3)] == [0, 5, 15]


def test_more_than_the_capacity_at_once_can_be_had_by_waiting(db: Database) -> None:
    assert _take(db, replace(ONE, amount=12)) == 20


def test_what_is_larger_than_its_bucket_passes_when_that_is_full_however_little_the_patience(db: Database) -> None:
    """Or it would be told for ever to come back."""
    assert _take(db, ONE) == 0
    large = replace(ONE, amount=12)
    assert _take(db, large, patience=1) == Later(2)
    assert _take(db, large, patience=1, at=2) == 20
    assert _take(db, ONE, patience=1, at=2) == Later(24)


def test_those_who_are_sent_away_come_back_one_after_the_other(db: Database) -> None:
    """And not all at once, to be sent away again but for one."""
    assert [_take(db, ONE, patience=1) for _ in range(4)] == [0, 0, Later(2), Later(4)]
    assert _take(db, replace(ONE, amount=2), patience=1) == Later(6)
    assert _take(db, ONE, patience=1) == Later(10)
    assert [_take(db, ONE, patience=1, at=2), _take(db, ONE, patience=1, at=4)] == [0, 0]
    assert _take(db, ONE, patience=1, at=100) == 0
    assert [_take(db, ONE, patience=1, at=100) for _ in range(2)] == [0, Later(2)]


def test_without_patience_nothing_is_taken_from_any(db: Database) -> None:
    tokens = Want(TOKENS, 100, capacity=100, per_second=1)
    _take(db, ONE, tokens)
    before = _level(db), _level(db, TOKENS)
    assert _take(db, ONE, tokens, patience=60) == Later(100)
    assert (_level(db), _level(db, TOKENS)) == before
    assert _take(db, ONE, tokens, patience=100) == 100


def test_what_is_given_back_can_be_taken_again(db: Database) -> None:
    assert [_take(db, ONE) for _ in range(3)] == [0, 0, 2]
    with db.write() as conn:
        give_back(db, conn, [ONE])
    assert _take(db, ONE) == 2
    with db.write() as conn:
        give_back(db, conn, [replace(ONE, amount=100)])
    assert _level(db) == 2


def test_estimates_are_corrected_both_ways(db: Database) -> None:
    _take(db, replace(ONE, amount=2))
    with db.write() as conn:
        correct(db, conn, {REQUESTS: 3})
    assert _level(db) == -3
    with db.write() as conn:
        correct(db, conn, {REQUESTS: -4, TOKENS: -4})
        correct(db, conn, {REQUESTS: 0})
    assert _level(db) == 1


def test_changed_settings_count_from_the_next_taking(db: Database) -> None:
    _take(db, ONE)
    assert _take(db, replace(ONE, amount=10, capacity=8, per_second=9)) == 1


def test_a_want_without_a_limit_passes_until_one_is_learned(db: Database) -> None:
    free = Want(REQUESTS, 1)
    assert [_take(db, free) for _ in range(5)] == [0] * 5
    _learn(db, limit=60, remaining=1, resets_in=59)
    assert [_take(db, free) for _ in range(3)] == [0, 1, 2]


def test_what_is_left_by_the_provider_only_lowers(db: Database) -> None:
    wide = Want(REQUESTS, 1, capacity=60, per_second=1)
    _take(db, wide)
    _learn(db, limit=60, remaining=10, resets_in=50)
    assert _level(db) == 10
    _learn(db, limit=60, remaining=30, resets_in=30)
    assert _level(db) == 10
    _learn(db, limit=None, remaining=5, resets_in=None)
    assert _level(db) == 5
    _learn(db, limit=60, remaining=20, resets_in=None, at=20)
    assert _take(db, wide, at=20) == 0
    assert _level(db) == 19


def test_the_stricter_of_settings_and_provider_counts(db: Database) -> None:
    wide = Want(REQUESTS, 0, capacity=600, per_second=10)
    _learn(db, limit=60, remaining=60, resets_in=0)
    assert _take(db, replace(wide, amount=61)) == 1
    _learn(db, limit=6000, remaining=6000, resets_in=0)
    assert _take(db, replace(wide, amount=9), at=1) == 0
    assert _take(db, replace(wide, amount=620), at=100) == 2


def test_a_window_longer_than_a_minute_is_noticed(db: Database) -> None:
    _learn(db, limit=200, remaining=199, resets_in=432)
    assert _take(db, Want(REQUESTS, 200), patience=1000) == pytest.approx(432)


def test_a_limit_that_left_the_settings_is_none_any_more(db: Database) -> None:
    assert [_take(db, ONE) for _ in range(4)] == [0, 0, 2, 4]
    free = Want(REQUESTS, 1)
    assert [_take(db, free) for _ in range(3)] == [0] * 3
    with db.write() as conn:
        give_back(db, conn, [free])
        block(db, conn, AT, REQUESTS, 9)
    assert [_take(db, free, at=at) for at in (0, 9, 10)] == [9, 0, 0]
    assert _take(db, ONE, at=100) == 0


def test_a_limit_that_left_the_settings_leaves_what_was_learned(db: Database) -> None:
    _take(db, ONE)
    _learn(db, limit=60, remaining=1, resets_in=59)
    assert [_take(db, Want(REQUESTS, 1)) for _ in range(3)] == [0, 1, 2]


def test_another_limit_of_the_provider_is_believed(db: Database) -> None:
    free = Want(REQUESTS, 1)
    _learn(db, limit=60, remaining=0, resets_in=60)
    assert [_take(db, free) for _ in range(2)] == [1, 2]
    _learn(db, limit=600, remaining=600, resets_in=0)
    assert _take(db, free) == pytest.approx(0.3)


def test_a_refill_is_slow_only_as_long_as_the_provider_says_so(db: Database) -> None:
    free = Want(REQUESTS, 60)
    _learn(db, limit=60, remaining=0, resets_in=600)
    assert _take(db, free, patience=1000) == 600
    _learn(db, limit=60, remaining=0, resets_in=60, at=600)
    assert _take(db, free, at=600, patience=1000) == 60


def test_most_answers_tell_nothing_new_and_write_nothing(db: Database) -> None:
    _learn(db, limit=60, remaining=30, resets_in=30)
    statements: list[str] = []
    sa.event.listen(db.engine, "before_cursor_execute", lambda *told: statements.append(told[2].split()[0]))
    _learn(db, limit=60, remaining=40, resets_in=20)
    _learn(db, limit=None, remaining=30, resets_in=None)
    assert set(statements) - {"BEGIN"} == {"SELECT"}


def test_nothing_is_learned_from_nothing(db: Database) -> None:
    _learn(db, limit=None, remaining=3, resets_in=None)
    _learn(db, limit=0, remaining=0, resets_in=9)
    with db.read() as conn:
        assert conn.execute(rate_buckets.select()).all() == []


def test_a_block_lets_nothing_pass_and_then_the_refill(db: Database) -> None:
    _take(db, ONE)
    with db.write() as conn:
        block(db, conn, AT, REQUESTS, 30)
        block(db, conn, AT, REQUESTS, 10)
    assert [_take(db, ONE), _take(db, ONE, at=10)] == [32, 24]
    assert _take(db, ONE, at=36) == 0
    assert _take(db, ONE, at=10, patience=5) == Later(28)
    with db.read() as conn:
        assert conn.execute(sa.select(rate_buckets.c.blocked_until)).scalar_one() == _after(30)


def test_a_block_where_no_rate_is_known_lets_all_pass_afterwards(db: Database) -> None:
    free = Want(REQUESTS, 1)
    with db.write() as conn:
        block(db, conn, AT, REQUESTS, 30)
    assert [_take(db, free, at=at) for at in (0, 0, 20, 30, 31)] == [30, 30, 10, 0, 0]
    assert _take(db, ONE, at=31) == 2


def test_tokens_are_queued_up_to_the_limit_and_no_further(db: Database) -> None:
    of_tenant = Limit(Address("*", "*", "*", "main", "queued_tokens"), 70)

    def up(tokens: float, *limits: Limit) -> bool:
        with db.write() as conn:
            return queue_up(db, conn, AT, limits, tokens)

    assert up(1000)
    assert [up(60, QUEUE), up(40, QUEUE), up(1, QUEUE)] == [True, True, False]
    with db.write() as conn:
        queue_down(db, conn, [QUEUE], 30)
    assert not up(71, QUEUE, of_tenant)
    assert not up(31, QUEUE, of_tenant)
    assert up(30, QUEUE, of_tenant)
    with db.write() as conn:
        queue_down(db, conn, [QUEUE], 1000)
    assert up(100, QUEUE)


def _stated(routes: dict[str, Any]) -> Settings:
    return Settings.model_validate({"limits": routes})


def test_every_route_that_fits_limits_a_request() -> None:
    settings = _stated(
        {
            "anthropic:*": {"requests_per_minute": 50},
            "anthropic:haiku": {"input_tokens_per_minute": 9},
            "*:haiku": {"output_tokens_per_minute": 8},
            "tenant:main": {"requests_per_minute": 7, "queued_tokens": 6},
            "*": {"requests_per_minute": 5, "queued_tokens": 4},
            "openai:*": {"requests_per_minute": 3},
            "tenant:acme": {"requests_per_minute": 2},
        }
    )
    found = {limit.address: limit.most for limit in limits_for(settings, "anthropic", "key", "haiku", "main")}
    assert found == {
        ("anthropic", "key", "haiku", "*", "requests"): None,
        ("anthropic", "key", "haiku", "*", "input_tokens"): 9,
        ("anthropic", "key", "haiku", "*", "output_tokens"): None,
        ("anthropic", "key", "*", "*", "requests"): 50,
        ("*", "*", "haiku", "*", "output_tokens"): 8,
        ("*", "*", "*", "main", "requests"): 7,
        ("*", "*", "*", "*", "requests"): 5,
    }
    queued = {limit.address: limit.most for limit in queue_limits_for(settings, "anthropic", "key", "haiku", "main")}
    assert queued == {("*", "*", "*", "main", "queued_tokens"): 6, ("*", "*", "*", "*", "queued_tokens"): 4}


def test_each_tenant_that_is_not_named_has_a_bucket_by_itself() -> None:
    settings = _stated({"tenant:*": {"requests_per_minute": 7}, "tenant:main": {"requests_per_minute": 70}})

    def of(tenant: str) -> dict[str, float | None]:
        found = limits_for(settings, "anthropic", "key", "haiku", tenant)
        return {limit.address.tenant: limit.most for limit in found if limit.most is not None}

    assert (of("main"), of("acme"), of("*")) == ({"main": 70}, {"acme": 7}, {})


def test_a_batch_is_no_single_tenants() -> None:
    settings = _stated({"tenant:*": {"queued_tokens": 7}, "openai:*": {"queued_tokens": 70}})
    assert [limit.most for limit in queue_limits_for(settings, "openai", "key", "gpt", "*")] == [70]


def test_limits_become_wants_by_the_amounts_of_a_request() -> None:
    limits = limits_for(_stated({"anthropic:*": {"requests_per_minute": 30}}), "anthropic", "key", "haiku", "main")
    wants = wants_of(limits, {"requests": 1, "input_tokens": 500})
    assert wants == [
        Want(Address("anthropic", "key", "haiku", "*", "requests"), 1),
        Want(Address("anthropic", "key", "haiku", "*", "input_tokens"), 500),
        Want(Address("anthropic", "key", "*", "*", "requests"), 1, 30, 0.5),
    ]


def test_threads_together_get_one_place_each(db: Database) -> None:
    """Forty callers at the same moment, in orders of their own: each gets a place at the rate, none gets it twice."""
    tokens = Want(TOKENS, 1, capacity=1000, per_second=100)

    def ask(number: int) -> float | Later:
        wants = (ONE, tokens) if number % 2 else (tokens, ONE)
        return _take(db, *wants, patience=1000)

    with ThreadPoolExecutor(8) as pool:
        waits = sorted(wait for wait in pool.map(ask, range(40)) if not isinstance(wait, Later))
    assert waits == [0, *range(0, 78, 2)]
    assert _level(db, TOKENS) == 960


@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0.1, 5)), min_size=1, max_size=15))
def test_what_is_sent_never_passes_the_rate(db: Database, asked: list[tuple[float, float]]) -> None:
    """Over any span of time: no more than the capacity and the refill of that span."""
    with db.write() as conn:
        conn.execute(rate_buckets.delete())
    now, sent = 0.0, []
    for pause, amount in asked:
        now += pause
        wait = _take(db, replace(ONE, amount=amount), at=now, patience=30)
        if not isinstance(wait, Later):
            sent.append((now + wait, amount))
    assert [moment for moment, _ in sent] == sorted(moment for moment, _ in sent)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            span = sent[last][0] - sent[first][0]
            # The amount of the first may be larger than the bucket: it was waited for before.
            total = sum(amount for _, amount in sent[first + 1 : last + 1])
            assert total <= 2 + 0.5 * span + 1e-5
