"""Who asks, and what they may do: bearer tokens with scopes, and patience with those who guess."""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from nightdesk.clock import Clock
from nightdesk.errors import NotFound
from nightdesk.guard.tokens import Bearer, verify_token
from nightdesk.web.context import Web, WebContext
from nightdesk.web.problems import Problem

FREE_FAILURES = 10
_LONGEST_PAUSE = 60
_FORGIVEN_AFTER = timedelta(minutes=15)
_MOST_KEPT = 10_000
_ASK = "Send: Authorization: Bearer nd_…, made with: nightdesk token create"

_bearer = HTTPBearer(auto_error=False, scheme_name="bearer", description="A token made with `nightdesk token create`.")


@dataclass
class _Failures:
    count: int
    last: datetime
    barred_until: datetime


class Throttle:
    """Slows down whoever shows wrong tokens: after ten, one try per pause, and the pauses double.

    A token that has worked from an address goes on working there, so that one broken client behind a proxy
    does not lock out the others.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def pause(self, address: str, secret: str) -> int:
        """Seconds that this address must wait before it may try this secret."""
        found = self._failures.get(address)
        if found is None or _fingerprint(address, secret) in self._known:
            return 0
        return max(0, math.ceil((found.barred_until - self._clock.now()).total_seconds()))

    def failed(self, address: str) -> None:
        now = self._clock.now()
        before = self._failures.pop(address, None)
        fresh = before is None or now - before.last > _FORGIVEN_AFTER
        count = 1 if before is None or fresh else before.count + 1
        pause = min(2 ** min(count - FREE_FAILURES, 10), _LONGEST_PAUSE) if count >= FREE_FAILURES else 0
        self._failures[address] = _Failures(count, now, now + timedelta(seconds=pause))
        _trim(self._failures)

    def passed(self, address: str, secret: str) -> None:
        self._known[_fingerprint(address, secret)] = None
        _trim(self._known)


def _fingerprint(address: str, secret: str) -> bytes:
    return hashlib.sha256(f"{address} {secret}".encode()).digest()


def _trim(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)


def needs(scope: str) -> Callable[..., Awaitable[Bearer]]:
    """A dependency: the bearer of a token with this scope, or 401, 403, 429."""

    async def check(
        request: Request, web: WebContext, shown: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
    ) -> Bearer:
        if shown is None:
            raise _unauthorized("This needs a bearer token.")
        bearer = await _identify(web, request, shown.credentials)
        if scope not in bearer.scopes:
            challenge = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
            raise Problem(
                403, "forbidden", f"The token lacks the scope {scope}.", "Use one that has it.", headers=challenge
            )
        return bearer

    return check


async def _identify(web: Web, request: Request, secret: str) -> Bearer:
    address = request.client.host if request.client else ""
    pause = web.throttle.pause(address, secret)
    if pause:
        wait = {"Retry-After": str(pause)}
        raise Problem(429, "too-many-attempts", "Too many wrong tokens came from your address.", _ASK, headers=wait)
    bearer = await web.rooms.call(verify_token, web.house.db, web.house.clock, secret)
    if bearer is None:
        web.throttle.failed(address)
        raise _unauthorized("The token is not known, has ended, or was revoked.", error="invalid_token")
    web.throttle.passed(address, secret)
    return bearer


def _unauthorized(detail: str, error: str = "") -> Problem:
    challenge = 'Bearer realm="nightdesk"' + (f', error="{error}"' if error else "")
    return Problem(401, "unauthorized", detail, _ASK, headers={"WWW-Authenticate": challenge})


def tenant_for(bearer: Bearer, asked: str | None) -> str | None:
    """The tenant that a request is about. Another's does not exist for a token that is bound to one."""
    if bearer.tenant is not None and asked not in (None, bearer.tenant):
        raise NotFound(f"There is no tenant {asked} for this token.", "Leave `tenant` out, or use another token.")
    return bearer.tenant if asked is None else asked


def actor(bearer: Bearer) -> str:
    return f"token:{bearer.name or bearer.id}"


Submitter = Annotated[Bearer, Depends(needs("submit"))]
Reader = Annotated[Bearer, Depends(needs("read"))]
Reviewer = Annotated[Bearer, Depends(needs("review"))]
Operator = Annotated[Bearer, Depends(needs("operate"))]
