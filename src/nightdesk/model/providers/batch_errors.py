"""What an exception of an SDK means for a batch: try later, refused for good, or perhaps done all the same."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx2

from nightdesk.canonical import Json
from nightdesk.model.providers import find
from nightdesk.model.providers.base import Refused, TryLater, Unknown
from nightdesk.model.providers.headers import retry_after

# With these, nothing of the request has left; after any other the provider may have had all of it.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_NO_ADDRESS = (httpx2.UnsupportedProtocol, httpx2.InvalidURL)
# Said by who turns a request away. A 503 is not among them: it may come from a gateway, after the work is done.
_TURNED_AWAY = (425, 429, 529)
_PERHAPS_DONE = (408, 409)
_PERHAPS_SOON = (404, 408, 409)
_FINAL = ("spend", "credentials", "policy")


@contextmanager
def told_apart(provider: str, key: str, sdk_error: type[Exception], *, creating: bool = False) -> Iterator[None]:
    """Turn what the SDK raises inside into TryLater, Refused and, when it is `creating`, Unknown.

    The exceptions of SDKs carry the request with its key, so they are not chained, and the key is taken out of the
    message, as providers like to repeat a wrong one.
    """
    try:
        yield
    except (TryLater, Refused, Unknown):
        raise
    except (sdk_error, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        outcome = _outcome(provider, error, creating)
        outcome.args = (str(outcome).replace(key, "***"),)
        raise outcome from None


def _outcome(provider: str, error: Exception, creating: bool) -> TryLater | Refused | Unknown:
    answer = getattr(error, "response", None)
    if isinstance(answer, httpx2.Response) and not answer.is_success:
        return _of_answer(provider, answer, creating)
    cause = error if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL) else error.__cause__
    kind = type(cause or error).__name__
    if isinstance(cause, _NOT_SENT):
        return TryLater(f"The provider could not be reached ({kind}).")
    if isinstance(cause, _NO_ADDRESS):
        return Refused("The provider's address is no URL that can be called.", "invalid")
    message = f"The provider's answer did not arrive, or could not be understood ({kind})."
    return Unknown(message) if creating else TryLater(message)


def _of_answer(provider: str, answer: httpx2.Response, creating: bool) -> TryLater | Refused | Unknown:
    status, body = answer.status_code, _body(answer)
    message = f"The provider answered {status}: {_message(body)}"[:500]
    pause = retry_after(answer.headers, datetime.now(UTC))
    trouble = find(provider).trouble(status, body)
    if trouble in _FINAL:
        return Refused(message, trouble)
    if status in _TURNED_AWAY:
        return TryLater(message, pause)
    if creating and (status >= 500 or status in _PERHAPS_DONE):
        return Unknown(message)
    if not creating and (status >= 500 or status in _PERHAPS_SOON):
        return TryLater(message, pause)
    return Refused(message, trouble)


def _body(answer: httpx2.Response) -> Json:
    """The JSON in an answer, else its text; None if it was streamed and is lost."""
    try:
        return json.loads(answer.content)
    except httpx2.ResponseNotRead:
        return None
    except ValueError:
        return answer.text


def _message(body: Json) -> str:
    """What the provider says, without the JSON around it."""
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)
