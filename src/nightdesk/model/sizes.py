"""How large a request is, before it is sent."""

import dataclasses

from nightdesk.model.asks import Ask
from nightdesk.model.providers import shape
from nightdesk.model.providers.base import Provider
from nightdesk.model.wish import Sizes
from nightdesk.playbook.definition import Asking
from nightdesk.settings import ModelSettings


def sizes_of(provider: Provider, ask: Ask, asking: Asking, settings: ModelSettings) -> Sizes:
    prefix = shape.prefix(ask)
    return Sizes(
        input=shape.input_tokens(ask),
        prefix=prefix.tokens,
        prefix_key=prefix.key,
        ttl=prefix.ttl,
        output_limit=_output_limit(provider.output_limit(ask), asking, settings),
        shape=shape.shape(ask),
        media=shape.has_media(ask),
        searches=shape.searches(ask),
    )


def limited(provider: Provider, ask: Ask, sizes: Sizes) -> Ask:
    """The ask with its limit of output tokens stated."""
    return dataclasses.replace(ask, body=provider.limited(ask, sizes.output_limit))


def _output_limit(stated: int | None, asking: Asking, settings: ModelSettings) -> int:
    """A playbook's limit holds whatever its code asks for; the house's is for a request that states none."""
    if asking.tokens is not None:
        return min(stated or asking.tokens, asking.tokens)
    return stated or settings.output_tokens
