"""What every endpoint works with: the house, and what the web process keeps in memory beside it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from nightdesk.house import House
from nightdesk.intake.requests import Requests
from nightdesk.watch.metrics import Metrics
from nightdesk.web.rooms import Rooms

if TYPE_CHECKING:
    from nightdesk.web.auth import Throttle


@dataclass(frozen=True)
class Web:
    house: House
    rooms: Rooms
    requests: Requests
    throttle: "Throttle"
    metrics: Metrics


async def _web(request: Request) -> Web:
    web: Web = request.app.state.web
    return web


WebContext = Annotated[Web, Depends(_web)]
