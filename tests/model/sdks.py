"""The official SDKs, unchanged, as clients of a running simulator."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
from anthropic import Anthropic
from google import genai
from google.genai import types
from openai import OpenAI

from nightdesk.model.simulator import Behaviour, Simulator, environment, running

CLAUDE, GPT, GEMINI = "claude-haiku-4-5", "gpt-5-mini", "gemini-2.5-flash"


@dataclass
class Desk:
    """One simulator, and a client of each kind that does not try again by itself."""

    url: str
    simulator: Simulator
    anthropic: Anthropic
    openai: OpenAI
    gemini: genai.Client
    http: httpx2.Client

    def meter(self, items: bool = False) -> dict[str, object]:
        report: dict[str, object] = self.http.get("/meter", params={"items": "1"} if items else {}).json()
        return report


@contextmanager
def at_desk(behaviour: Behaviour | None = None) -> Iterator[Desk]:
    with running(Simulator(behaviour)) as served:
        names = environment(served.url)
        options = types.HttpOptions(base_url=names["GOOGLE_GEMINI_BASE_URL"])
        with (
            Anthropic(
                base_url=names["ANTHROPIC_BASE_URL"], api_key=names["ANTHROPIC_API_KEY"], max_retries=0
            ) as anthropic,
            OpenAI(base_url=names["OPENAI_BASE_URL"], api_key=names["OPENAI_API_KEY"], max_retries=0) as openai,
            genai.Client(vertexai=False, api_key=names["GEMINI_API_KEY"], http_options=options) as gemini,
            httpx2.Client(base_url=served.url, timeout=20) as http,
        ):
            yield Desk(served.url, served.simulator, anthropic, openai, gemini, http)
