"""The application, put together."""

from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from nightdesk.errors import NightdeskError
from nightdesk.house import House
from nightdesk.intake.requests import Requests
from nightdesk.watch.metrics import Metrics
from nightdesk.web import health, reviews, tasks
from nightdesk.web.auth import Throttle
from nightdesk.web.context import Web
from nightdesk.web.openapi import document
from nightdesk.web.problems import Problem, problem_of
from nightdesk.web.rooms import Rooms
from nightdesk.web.wire import BODY_SECONDS, BodyGuard, Counter

_ABOUT = "Queue work for AI agents by day, have it done overnight, review it in the morning."
_EXPECTED = (Problem, NightdeskError, RequestValidationError, HTTPException, ClientDisconnect)


def create_app(house: House, rooms: Rooms) -> FastAPI:
    """The HTTP API of the house, as an ASGI application."""
    app = FastAPI(
        title="Nightdesk",
        version=version("nightdesk"),
        description=_ABOUT,
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    metrics = Metrics(house.db, house.clock)
    app.state.web = Web(house, rooms, Requests(house), Throttle(house.clock), metrics)
    app.include_router(tasks.router)
    app.include_router(reviews.router)
    app.include_router(health.router)
    app.openapi = document(app, house)  # type: ignore[method-assign]  # the way FastAPI documents
    for kind in (*_EXPECTED, Exception):
        app.add_exception_handler(kind, _refuse)
    app.add_middleware(BodyGuard, max_bytes=house.settings.api.max_body_bytes, seconds=BODY_SECONDS)
    app.add_middleware(Counter, metrics=metrics)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status == 405:
        problem.headers = {"Allow": ", ".join(sorted(_allowed(request)))}
    return problem.response()


def _allowed(request: Request) -> set[str]:
    """The methods of all routes at this path; Starlette names only those of the first."""
    routes = [
        route
        for route in (*tasks.router.routes, *reviews.router.routes, *health.router.routes)
        if isinstance(route, Route)
    ]
    here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in here for method in route.methods or ()}
