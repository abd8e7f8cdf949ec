"""What a call costs: as it was, as it may at worst be, and as it is expected to be in each lane. Offline, from the data
of genai-prices; None wherever no price is known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Literal

import genai_prices
from genai_prices import data_snapshot, types

from nightdesk.canonical import Json

Lane = Literal["live", "batch", "flex"]

# Kept with each call, so that a night can be priced again.
PRICES = f"genai-prices {genai_prices.__version__}"
# What a lane is called in the price data.
_CONTEXTS: dict[Lane, dict[str, str]] = {
    "live": {},
    "batch": {"processing": "batch"},
    "flex": {"service_tier": "flex"},
}
_FLAVORS = {"chat": "chat", "responses": "responses"}
_NOT_DETAILS = {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}
# A batch may be answered, and billed, on a later day than it is sent on.
_DAYS_TO_AN_ANSWER = 2
_DEARER = ("fast", "priority")
_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used. `input` is all input tokens: those read from a cache and written to one are part of it.
    `output` includes reasoning. `detail` has finer counts as genai-prices names them (`cache_write_1h_tokens`,
    `input_audio_tokens`, `web_searches`). `tier` is the service that the answer says was given, where it changes the
    price: `priority` or `fast` is dearer, `standard` is what a request for flex may get."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    detail: Mapping[str, int] = field(default_factory=dict)
    tier: str = ""


def usage_of(endpoint: str, provider: str, answer: Json) -> Usage:
    """The usage that an answer tells; nothing used if it tells none."""
    try:
        extracted = genai_prices.extract_usage(
            _only_usage(answer), provider_id=provider, api_flavor=_FLAVORS.get(endpoint, "default")
        )
    except (LookupError, ValueError, TypeError):
        return Usage()
    told = {key: int(value) for key, value in vars(extracted.usage).items()}
    read, write = told.get("cache_read_tokens", 0), told.get("cache_write_tokens", 0)
    return Usage(
        input=max(told.get("input_tokens", 0), read + write),
        output=told.get("output_tokens", 0),
        cache_read=read,
        cache_write=write,
        detail={key: value for key, value in told.items() if key not in _NOT_DETAILS and value},
        tier=_tier_of(answer),
    )


def cost(provider: str, model: str, usage: Usage, lane: Lane, day: date) -> Decimal | None:
    """What the call cost in dollars, at the prices of the day (by UTC)."""
    given: Lane = "live" if lane == "flex" and usage.tier == "standard" else lane
    prices = _prices(provider, model, given, _dearer(given, usage.tier), day)
    return None if prices is None else _priced(prices.data, usage) * prices.share


def worst_case(
    provider: str,
    model: str,
    input_tokens: int,
    output_limit: int,
    lane: Lane,
    cache_writes: int = 0,
    *,
    day: date,
    tier: str = "",
    media: bool = False,
    searches: int = 0,
) -> Decimal | None:
    """No outcome of the call costs more: every token at the dearest rate that it may have, on any day on which the call
    may be answered. `cache_writes` are the input tokens that the request marks for a cache, `media` whether it carries
    anything but text, `searches` how many web searches it allows, `tier` the dearer service it asks for."""
    found: list[Decimal] = []
    for ahead in range(_DAYS_TO_AN_ANSWER + 1):
        prices = _prices(provider, model, lane, _dearer(lane, tier), day + timedelta(days=ahead))
        if prices is None:
            return None
        rates = _dearest(prices.data, input_tokens, provider != "anthropic", media)
        writes = min(cache_writes, input_tokens)
        tokens = (input_tokens - writes) * rates.input + writes * rates.write + output_limit * rates.output
        found.append((tokens / _MILLION + searches * rates.search / 1000) * prices.share)
    return max(found)


def expected(
    provider: str,
    model: str,
    lane: Lane,
    *,
    day: date,
    prefix_tokens: int = 0,
    hit_share: float = 0.0,
    new_input: int = 0,
    output: int = 0,
    ttl: str = "",
) -> Decimal | None:
    """What the call may be expected to cost. The prefix is found in a cache with the given share of hits, and otherwise
    written to one if it is marked so (`ttl` is `5m` or `1h`) or if the provider writes by itself."""
    share = Decimal(str(min(1.0, max(0.0, hit_share))))
    hit = cost(provider, model, Usage(prefix_tokens + new_input, output, cache_read=prefix_tokens), lane, day)
    missed = cost(provider, model, _missed(provider, prefix_tokens, new_input, output, ttl), lane, day)
    return None if hit is None or missed is None else share * hit + (1 - share) * missed


def micros(dollars: Decimal) -> int:
    """Whole millionths of a dollar, rounded up."""
    return int((dollars * _MILLION).to_integral_value(ROUND_CEILING))


def _missed(provider: str, prefix: int, new_input: int, output: int, ttl: str) -> Usage:
    if not ttl and provider == "anthropic":
        return Usage(prefix + new_input, output)
    detail = {"cache_write_1h_tokens": prefix} if ttl == "1h" else {}
    return Usage(prefix + new_input, output, cache_write=prefix, detail=detail)


@dataclass(frozen=True, slots=True)
class _Prices:
    """Prices in dollars per million tokens, and the share of them that is paid."""

    data: types.ModelPrice
    share: Decimal


@lru_cache(maxsize=4096)
def _prices(provider: str, model: str, lane: Lane, tier: str, day: date) -> _Prices | None:
    """Looked up once per day, as prices change from one day to the next."""
    snapshot = data_snapshot.get_snapshot()
    try:
        seller, found = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    context = dict(_CONTEXTS[lane]) | ({"service_tier": tier, "speed": tier} if tier else {})
    moment = datetime.combine(day, time(12), UTC)
    data, plain = found.get_prices(moment, context), found.get_prices(moment)
    # The data lacks the flex prices of nearly all Gemini models; Google sells flex at half price.
    halved = lane == "flex" and seller.id == "google" and data == plain
    return _Prices(data, Decimal("0.5") if halved else Decimal(1))


def _dearer(lane: Lane, tier: str) -> str:
    return tier if lane == "live" and tier in _DEARER else ""


def _priced(data: types.ModelPrice, usage: Usage) -> Decimal:
    plain = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }
    try:
        return data.calc_price(types.Usage(**plain, **usage.detail))["total_price"]
    except ValueError:
        # Details that contradict each other or leave something out.
        return data.calc_price(types.Usage(**plain))["total_price"]


@dataclass(frozen=True, slots=True)
class _Rates:
    input: Decimal
    write: Decimal
    output: Decimal
    search: Decimal


def _dearest(data: types.ModelPrice, input_tokens: int, writes_by_itself: bool, media: bool) -> _Rates:
    """`writes_by_itself`: the provider may write any input to a cache without being asked to."""
    steps = dict(_steps(data, input_tokens))
    plain = {"input_mtok"} | ({"cache_write_mtok"} if writes_by_itself else set())
    media_keys = {key for key in steps if key.startswith("input_") and key.endswith("_mtok")} if media else set()
    writes = {"cache_write_mtok", "cache_write_1h_mtok"}
    outputs = {key for key in steps if key.startswith("output_") and key.endswith("_mtok")}
    return _Rates(
        input=_highest(steps, plain | media_keys),
        write=_highest(steps, plain | media_keys | writes),
        output=_highest(steps, outputs),
        search=_highest(steps, {"web_searches_kcount"}),
    )


def _highest(steps: Mapping[str, Decimal], keys: set[str]) -> Decimal:
    return max((steps[key] for key in keys if key in steps), default=Decimal(0))


def _steps(data: types.ModelPrice, input_tokens: int) -> Iterator[tuple[str, Decimal]]:
    """Each price, and of one with steps the highest that so much input may reach."""
    for key, price in vars(data).items():
        if isinstance(price, Decimal):
            yield key, price
        elif isinstance(price, types.TieredPrices):
            yield key, max([price.base, *(tier.price for tier in price.tiers if input_tokens > tier.start)])


def _only_usage(answer: Json) -> Json:
    """Without the model, which may be one whose price is not known."""
    return {key: answer[key] for key in ("usage", "usageMetadata") if isinstance(answer, dict) and key in answer}


def _tier_of(answer: Json) -> str:
    """The providers tell it in different places, and in words that differ little."""
    usages = [value for key in ("usage", "usageMetadata") if isinstance(value := answer.get(key), dict)]
    keys = ("speed", "service_tier", "serviceTier")
    named = {str(told.get(key)).lower() for told in (answer, *usages) for key in keys}
    if named & {"default", "standard"} and not named & set(_DEARER):
        return "standard"
    return next((tier for tier in _DEARER if tier in named), "")
