"""One request to a model, told apart from the HTTP around it: what is asked, of whom, and what makes it the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nightdesk.canonical import Json, canonical, digest


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as an SDK sends it. Header names are in small letters."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A model request recognised by its provider.

    `body` is without what only concerns the way of answering (streaming), so that a streamed request and a plain one
    are the same. `headers` are those that change the answer (API version, betas); never a key. `base_url` has no
    slash at its end; `base_url + path` is where the request goes. `stream_usage` is whether a streamed answer is to
    tell the usage where that is asked for apart (OpenAI's chat).
    """

    provider: str
    endpoint: str
    base_url: str
    path: str
    model: str
    body: dict[str, Json]
    headers: dict[str, str]
    streamed: bool
    stream_usage: bool = False

    @property
    def hash(self) -> str:
        """What makes two requests the same, without where they are sent and with which key."""
        return digest(self.endpoint, self.path, canonical(self.headers), canonical(self.body))


def call_id(task_id: str, version: int, step: str, body_hash: str, occurrence: int) -> str:
    """Also the name of the call in a batch, where 64 letters and digits are allowed."""
    return digest(task_id, str(version), step, body_hash, str(occurrence))[:40]
