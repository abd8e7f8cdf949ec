"""For supervisors and collectors, without a token: is the process alive, can it work, what did it count."""

from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from nightdesk.store import Database
from nightdesk.web import schemas
from nightdesk.web.context import WebContext
from nightdesk.web.openapi import answers

READY_SECONDS = 0.5

router = APIRouter(tags=["health"])

_TEXT: dict[str, Any] = {
    "description": "Prometheus's text format.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


@router.get("/healthz/live", summary="Whether the process lives", responses=answers(200, schemas.Live))
async def live() -> JSONResponse:
    return JSONResponse({"status": "live"})


@router.get("/healthz/ready", summary="Whether the database answers", responses=answers(200, schemas.Ready, 503))
async def ready(web: WebContext) -> JSONResponse:
    await web.rooms.call_within(READY_SECONDS, lambda: _ping(web.house.db))
    return JSONResponse({"status": "ready"})


def _ping(database: Database) -> None:
    with database.read() as conn:
        conn.execute(sa.select(1))


@router.get("/metrics", summary="Metrics", response_class=Response, responses={200: _TEXT, **answers(None, None, 503)})
async def metrics(web: WebContext) -> Response:
    return Response(await web.rooms.call(web.metrics.render), media_type=CONTENT_TYPE_LATEST)
