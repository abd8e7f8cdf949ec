"""Which limits a request is under: the bucket of each, and how much it holds by the settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nightdesk.settings import RateSettings, Settings

Dimension = Literal["requests", "input_tokens", "output_tokens", "queued_tokens"]

ANY = "*"
MINUTE = 60.0
_RATES: tuple[Dimension, ...] = ("requests", "input_tokens", "output_tokens")


class Address(NamedTuple):
    """Which bucket; an asterisk stands for any."""

    provider: str
    credential: str
    model: str
    tenant: str
    dimension: Dimension


@dataclass(frozen=True)
class Want:
    """So much from this bucket. Without a capacity it is limited only by what the provider was found to allow."""

    address: Address
    amount: float
    capacity: float | None = None
    per_second: float | None = None


@dataclass(frozen=True)
class Limit:
    """A limit by the settings; or, if `most` is None, whatever the provider was found to allow."""

    address: Address
    most: float | None

    def want(self, amount: float) -> Want:
        return Want(self.address, amount, self.most, None if self.most is None else self.most / MINUTE)


def limits_for(settings: Settings, provider: str, credential: str, model: str, tenant: str) -> list[Limit]:
    """All rates that a request is under: those in the settings, and those that its provider tells of."""
    own = [Limit(Address(provider, credential, model, ANY, dimension), None) for dimension in _RATES]
    stated = [limit for limit in _stated(settings, provider, credential, model, tenant) if _is_rate(limit)]
    return list({limit.address: limit for limit in [*own, *stated]}.values())


def queue_limits_for(settings: Settings, provider: str, credential: str, model: str, tenant: str) -> list[Limit]:
    """The limits of tokens queued in batches, for `queue_up`."""
    return [limit for limit in _stated(settings, provider, credential, model, tenant) if not _is_rate(limit)]


def wants_of(limits: Sequence[Limit], amounts: Mapping[Dimension, float]) -> list[Want]:
    """What a request of these amounts takes from the limits' buckets."""
    return [limit.want(amounts[limit.address.dimension]) for limit in limits if amounts.get(limit.address.dimension)]


def _is_rate(limit: Limit) -> bool:
    return limit.address.dimension in _RATES


def _stated(settings: Settings, provider: str, credential: str, model: str, tenant: str) -> Iterator[Limit]:
    """A route of one provider counts for each of its credentials alone, as providers do; the others for all."""
    routes = settings.limits.routes
    places = {
        f"{provider}:{model}": (provider, credential, model, ANY),
        f"{provider}:*": (provider, credential, ANY, ANY),
        f"*:{model}": (ANY, ANY, model, ANY),
        "*": (ANY, ANY, ANY, ANY),
    }
    if tenant != ANY:  # a batch is many tenants'
        named = f"tenant:{tenant}"
        places[named if named in routes else "tenant:*"] = (ANY, ANY, ANY, tenant)
    for route, place in places.items():
        if stated := routes.get(route):
            yield from (Limit(Address(*place, name), most) for name, most in _most(stated).items() if most is not None)


def _most(stated: RateSettings) -> dict[Dimension, float | None]:
    return {
        "requests": stated.requests_per_minute,
        "input_tokens": stated.input_tokens_per_minute,
        "output_tokens": stated.output_tokens_per_minute,
        "queued_tokens": stated.queued_tokens,
    }
