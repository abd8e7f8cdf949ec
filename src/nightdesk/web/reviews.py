"""The endpoints of the desk: what lies there, one item whole, and a decision."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import JSONResponse

from nightdesk.guard.tokens import Bearer
from nightdesk.review.asked import Actor, Asked
from nightdesk.review.cards import find
from nightdesk.review.decisions import decide
from nightdesk.review.desk import Filters, list_items
from nightdesk.web import schemas_reviews as schemas
from nightdesk.web.auth import Reviewer, actor, tenant_for
from nightdesk.web.context import WebContext
from nightdesk.web.openapi import answers, takes
from nightdesk.web.reading import body_of

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])

ItemId = Annotated[str, Path(pattern=schemas.ITEM, description="The item's id.")]


@router.get("", summary="List what lies on the desk", responses=answers(200, schemas.ReviewPage, 404))
async def list_reviews(
    web: WebContext, bearer: Reviewer, asked: Annotated[schemas.ReviewFilters, Query()]
) -> JSONResponse:
    """What holds up work first, then drafts: urgent kinds, then risk, then doubt; a page at a time."""
    filters = Filters(
        asked.kind,
        asked.playbook,
        asked.risk,
        tenant_for(bearer, asked.tenant),
        failed=None if asked.failed is None else asked.failed == "true",
        later=asked.later == "true",
    )
    page = await web.rooms.call(list_items, web.house, filters, asked.limit, asked.cursor)
    return JSONResponse(asdict(page))


@router.get("/{item_id}", summary="Show an item of the desk", responses=answers(200, schemas.Review, 404))
async def show_review(web: WebContext, bearer: Reviewer, item_id: ItemId) -> JSONResponse:
    """All that a decision rests on. To look changes nothing."""
    return JSONResponse(await web.rooms.call(find, web.house, item_id, actor_of(bearer), bearer.tenant))


@router.post(
    "/{item_id}/decision",
    summary="Decide about an item",
    responses=answers(200, schemas.Outcome, 400, 404, 408, 409, 413, 415),
    openapi_extra=takes(schemas.Decision),
)
async def decide_review(
    web: WebContext,
    bearer: Reviewer,
    item_id: ItemId,
    body: Annotated[schemas.Decision, Depends(body_of(schemas.Decision))],
) -> JSONResponse:
    """The same again gets the same answer. 409 has the outcome that is in the way."""
    asked = Asked(item_id, actor=actor_of(bearer), tenant=bearer.tenant, **body.model_dump())
    outcome = await web.rooms.call(decide, web.house, asked)
    return JSONResponse(outcome.as_json())


def actor_of(bearer: Bearer) -> Actor:
    """A token is no person: only an admin's reaches what cannot be taken back."""
    is_admin = "admin" in bearer.scopes
    role, ceiling = ("admin", "irreversible") if is_admin else ("token", "customer")
    return Actor(actor(bearer), None, role, ceiling, "api", "token", bearer.scopes)  # type: ignore[arg-type] # by name
