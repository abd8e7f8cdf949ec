"""Models for Pydantic AI agents, over the transport; they can change to another provider where a playbook allows it."""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from nightdesk.errors import GiveUp, NightdeskError
from nightdesk.model.asker import Asker, diversion
from nightdesk.model.providers import find
from nightdesk.model.transport import http_client
from nightdesk.model.wish import Diversion
from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.agents")
_OWN_BATCHES = (
    "The agent makes batches of its own (the capability BatchModelRequests, or model_request_batch), whose answers are "
    "lost when the worker ends, and paid again. Take that out: Nightdesk puts what desk.model() asks into batches."
)
_WEBSOCKET = (
    "The agent sets openai_transport to websocket, where calls cannot be told apart, and so not be journaled. "
    "Leave the setting out: desk.model() asks over HTTP."
)
# Pydantic AI holds a clock of its own against these, also while the call is on its way through a batch.
_DEADLINES = {"request_timeout", "first_event_timeout"}


def agent_model(asker: Asker, name: str | None) -> Model:
    """The model of this name (`provider:name`), or the playbook's own."""
    chosen = name or asker.playbook.asking.use
    if chosen is None:
        raise NightdeskError(
            f"Playbook {asker.playbook.name} names no model.",
            "State one in it (model: {use: anthropic:claude-haiku-4-5}), or name it: desk.model(...).",
        )
    return _DeskModel(asker, chosen)


class _DeskModel(WrapperModel):
    """The named model. When the asker diverts a request, it is made to the model that it names instead."""

    def __init__(self, asker: Asker, name: str) -> None:
        super().__init__(_plain_model(asker, name))
        self._asker = asker

    @property
    def batch_max_requests(self) -> int | None:
        """Asked for by whoever is about to make batches of these requests."""
        raise GiveUp(_OWN_BATCHES)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._check(model_settings)
        model: Model = self.wrapped
        while True:
            with _diverting() as waiting:
                try:
                    response = await model.request(messages, model_settings, model_request_parameters)
                    return _priced(response, waiting.lane)
                except ModelHTTPError:
                    if waiting.to is None:
                        raise
            model = _plain_model(self._asker, waiting.to)
            messages = model.prepare_messages(messages, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The answer is there as a whole before the first event is told, so that it is read here to its end."""
        self._check(model_settings)
        model: Model = self.wrapped
        while True:
            with _diverting() as waiting:
                try:
                    asked = (messages, model_settings, model_request_parameters, run_context)
                    async with model.request_stream(*asked) as stream:
                        events = [event async for event in stream]
                        response = _priced(stream.get(), waiting.lane)
                    break
                except ModelHTTPError:
                    if waiting.to is None:
                        raise
            model = _plain_model(self._asker, waiting.to)
            messages = model.prepare_messages(messages, model_request_parameters)
        parameters = model_request_parameters
        yield CompletedStreamedResponse(response, model_request_parameters=parameters, replay_events=events)

    def _check(self, asked: ModelSettings | None) -> None:
        settings: dict[str, Any] = {**(self.wrapped.settings or {}), **(asked or {})}
        if settings.get("openai_transport") == "websocket":
            raise GiveUp(_WEBSOCKET)
        for name in _DEADLINES & settings.keys():
            _log.warning(
                f"The agent sets {name}, which fails a call that waits for its batch or for its turn; leave it out.",
                action="ask",
                setting=name,
                seconds=settings[name],
            )


def _priced(response: ModelResponse, lane: str | None) -> ModelResponse:
    """Tell Pydantic AI of the half price, so that its own sum of costs is right."""
    if lane == "batch":
        response.provider_details = {**(response.provider_details or {}), "processing": "batch"}
    return response


@contextmanager
def _diverting() -> Iterator[Diversion]:
    waiting = Diversion()
    mark = diversion.set(waiting)
    try:
        yield waiting
    finally:
        diversion.reset(mark)


def _plain_model(asker: Asker, name: str) -> Model:
    provider, _, model = name.partition(":")
    if not model:
        raise NightdeskError(
            f"{name!r} is not a model.", "Name one as provider:name, as in anthropic:claude-haiku-4-5."
        )
    build = _BUILDERS[find(provider).name]
    settings = ModelSettings(max_tokens=asker.output_limit)
    return build(model, key_for(provider), http_client(asker, sync=False, library="httpx2"), settings)


def key_for(provider: str) -> str:
    """The key in the environment; refused with the name of its variable if there is none."""
    variables = find(provider).key_variables
    key = next((os.environ[name] for name in variables if os.environ.get(name)), None)
    if key is None:
        raise NightdeskError(
            f"There is no key for {provider}.", f"Set {variables[0]}, or start `nightdesk simulator` and use its."
        )
    return key


def _anthropic(model: str, key: str, client: Any, settings: ModelSettings) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(model, provider=AnthropicProvider(api_key=key, http_client=client), settings=settings)


def _openai(model: str, key: str, client: Any, settings: ModelSettings) -> Model:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIResponsesModel(model, provider=OpenAIProvider(api_key=key, http_client=client), settings=settings)


def _google(model: str, key: str, client: Any, settings: ModelSettings) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(model, provider=GoogleProvider(api_key=key, http_client=client), settings=settings)


_BUILDERS = {"anthropic": _anthropic, "openai": _openai, "google": _google}
