"""What is particular to each provider: its wire protocol as pure functions over JSON, and its batches.

Promises: a streamed request and a plain one are the same ask; an answer is told as its SDK expects it, streamed or not.
Never: opens a connection, or imports an SDK to read a request.
"""

from nightdesk.errors import NotFound
from nightdesk.model.asks import Ask, HttpRequest
from nightdesk.model.providers.anthropic import Anthropic
from nightdesk.model.providers.base import Provider
from nightdesk.model.providers.gemini import Gemini
from nightdesk.model.providers.openai import OpenAI

PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in (Anthropic(), OpenAI(), Gemini())}
_ALIASES = {"gemini": "google"}


def find(name: str) -> Provider:
    """The provider of this name (`gemini` is another for `google`); NotFound if there is none."""
    provider = PROVIDERS.get(_ALIASES.get(name, name))
    if provider is None:
        raise NotFound(f"There is no provider '{name}'.", f"Those there are: {', '.join(PROVIDERS)}.")
    return provider


def plain_name(model: str) -> str:
    """The model, as `provider:name`, under the provider's own name."""
    provider, colon, name = model.partition(":")
    return f"{_ALIASES.get(provider, provider)}{colon}{name}"


def recognise(request: HttpRequest) -> Ask | None:
    """The ask in a request to any provider's model; None if it is none, Invalid if it cannot be carried."""
    for provider in PROVIDERS.values():
        ask = provider.recognise(request)
        if ask is not None:
            return ask
    return None
