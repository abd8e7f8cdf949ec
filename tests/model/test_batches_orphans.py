"""A batch that was made without our hearing of it is found again, and no other is taken for it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from nightdesk.model.providers.base import Found, Parcel, Unknown
from tests.model.batch_worlds import PROVIDERS, World, world_of

_NONE: frozenset[str] = frozenset()


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with world_of(request.param) as world:
        yield world


def _lost(world: World, parcel: Parcel) -> None:
    """The provider makes the batch, and its answer is an error."""
    world.once("create_lost", status=502)
    with pytest.raises(Unknown):
        world.client.create(parcel)


def _names(parcel: Parcel) -> list[str]:
    return [item.name for item in parcel.items]


def test_a_batch_whose_creation_went_unanswered_is_found(world: World) -> None:
    parcel = world.parcel(7)
    _lost(world, parcel)
    found = world.client.find(parcel, _NONE)
    assert found is not None
    assert found.sure == (world.provider != "anthropic")
    assert world.client.holds(found.provider_id, _names(parcel)) is None
    world.advance(60)
    assert world.client.holds(found.provider_id, _names(parcel)) is True
    assert world.client.holds(found.provider_id, ["of-another"]) is False
    assert len(world.results(found.provider_id)) == 7


def test_nothing_is_found_where_nothing_was_made(world: World) -> None:
    world.client.create(world.parcel(3, "another"))
    assert world.client.find(world.parcel(7), _NONE) is None


def test_what_others_have_is_not_taken(world: World) -> None:
    parcel = world.parcel(7)
    provider_id = world.client.create(parcel)
    assert world.client.find(parcel, frozenset({provider_id})) is None


def test_what_was_made_long_before_is_not_taken(world: World) -> None:
    early = world.parcel(7)
    world.client.create(early)
    late = replace(early, created_at=early.created_at + timedelta(minutes=10))
    assert world.client.find(late, _NONE) is None


def test_clocks_may_differ_by_some_minutes(world: World) -> None:
    early = world.parcel(7)
    provider_id = world.client.create(early)
    late = replace(early, created_at=early.created_at + timedelta(minutes=4))
    assert world.client.find(late, _NONE) == Found(provider_id, world.provider != "anthropic")


def test_it_is_found_behind_many_that_came_after(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}[world.provider]
    monkeypatch.setattr(f"nightdesk.model.providers.{module}_batches._PAGE", 2)
    parcel = world.parcel(7)
    _lost(world, parcel)
    world.advance(10)
    for number in range(5):
        world.client.create(world.parcel(1, f"later-{number}"))
    found = world.client.find(parcel, _NONE)
    assert found is not None
    world.advance(60)
    assert world.client.holds(found.provider_id, _names(parcel)) is True


def test_of_two_that_fit_the_nearer_in_time_is_tried_first() -> None:
    with world_of("anthropic") as world:
        mine = world.parcel(5, "mine")
        _lost(world, mine)
        world.advance(100)
        other_id = world.client.create(world.parcel(5, "other"))
        first = world.client.find(mine, _NONE)
        assert first is not None
        assert first.provider_id != other_id
        second = world.client.find(mine, frozenset({first.provider_id}))
        assert second == Found(other_id, sure=False)
        world.advance(60)
        assert world.client.holds(first.provider_id, _names(mine)) is True
        assert world.client.holds(other_id, _names(mine)) is False
