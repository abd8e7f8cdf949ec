"""The task endpoints: read the request, call the room, write down what it says."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import JSONResponse

from nightdesk.canonical import Json, canonical, digest, jsonable
from nightdesk.guard.tokens import Bearer
from nightdesk.house import House
from nightdesk.intake import Submission, submit_in
from nightdesk.intake.requests import Answer
from nightdesk.web import schemas
from nightdesk.web.auth import Operator, Reader, Submitter, actor, tenant_for
from nightdesk.web.context import Web, WebContext
from nightdesk.web.openapi import answers, takes
from nightdesk.web.reading import body_of, idempotency_key
from nightdesk.work import dead, insight, tasks

ROUTE = "/v1/tasks"

router = APIRouter(prefix=ROUTE, tags=["tasks"])

TaskId = Annotated[str, Path(pattern=schemas.ID, description="The task's id.")]


@router.post(
    "",
    status_code=202,
    summary="Submit a task",
    responses=answers(202, schemas.Task, 400, 404, 408, 409, 413, 415),
    openapi_extra=takes(schemas.NewTask),
)
async def submit_task(
    web: WebContext,
    bearer: Submitter,
    key: Annotated[str | None, Depends(idempotency_key)],
    body: Annotated[schemas.NewTask, Depends(body_of(schemas.NewTask))],
) -> JSONResponse:
    """The task is on disk when this answers 202. The same request again gets the same answer and does nothing."""
    answer = await web.rooms.call(_submit, web, bearer, key, body)
    headers = answer.headers | ({"Idempotent-Replayed": "true"} if answer.replayed else {})
    return JSONResponse(answer.body, answer.status, headers)


def _submit(web: Web, bearer: Bearer, key: str | None, body: schemas.NewTask) -> Answer:
    tenant = tenant_for(bearer, body.tenant) or "main"
    stated = body.model_dump(exclude_unset=True) | {"tenant": tenant}
    submission = Submission(**stated)

    def work(conn: sa.Connection) -> Answer:
        receipt = submit_in(web.house, conn, submission, actor=actor(bearer))
        web.metrics.submitted(submission.playbook, "new" if receipt.created else "again")
        task = insight.read_task(conn, receipt.id, tenant)
        return Answer(202, {"Location": f"{ROUTE}/{receipt.id}"}, task)

    if key is None:
        with web.house.db.write() as conn:
            return work(conn)
    fingerprint = digest(f"POST {ROUTE}", canonical(jsonable(stated)))
    return web.requests.once(tenant, key, fingerprint, work)


@router.get("", summary="List tasks", responses=answers(200, schemas.TaskPage, 404))
async def list_tasks(
    web: WebContext,
    bearer: Reader,
    filters: Annotated[schemas.TaskFilters, Query()],
) -> JSONResponse:
    """The newest first, a page at a time."""
    stated = filters.model_dump() | {"tenant": tenant_for(bearer, filters.tenant)}
    page = await web.rooms.call(insight.list_tasks, web.house, **stated)
    return JSONResponse({"items": page.items, "next_cursor": page.next_cursor})


@router.get("/{task_id}", summary="Show a task", responses=answers(200, schemas.Task, 404))
async def show_task(web: WebContext, bearer: Reader, task_id: TaskId) -> JSONResponse:
    """Its state, steps, cost and result."""
    return JSONResponse(await web.rooms.call(insight.find_task, web.house, task_id, bearer.tenant))


_CHANGES = answers(200, schemas.Task, 400, 404, 408, 409, 413, 415)


@router.post(
    "/{task_id}/cancel",
    summary="Cancel a task",
    responses=_CHANGES,
    openapi_extra=takes(schemas.Reason, optional=True),
)
async def cancel_task(
    web: WebContext,
    bearer: Operator,
    task_id: TaskId,
    body: Annotated[schemas.Reason, Depends(body_of(schemas.Reason, optional=True))],
) -> JSONResponse:
    """End it without a result. To cancel a cancelled task does nothing."""
    task = await web.rooms.call(
        tasks.cancel, web.house, task_id, actor=actor(bearer), why=body.why, tenant=bearer.tenant
    )
    return JSONResponse(task)


@router.post(
    "/{task_id}/replay",
    summary="Replay a dead letter",
    responses=_CHANGES,
    openapi_extra=takes(schemas.Reason, optional=True),
)
async def replay_task(
    web: WebContext,
    bearer: Operator,
    task_id: TaskId,
    body: Annotated[schemas.Reason, Depends(body_of(schemas.Reason, optional=True))],
) -> JSONResponse:
    """Queue it again; it goes on after the last completed step."""
    return JSONResponse(await web.rooms.call(_replay, web.house, task_id, bearer, body.why))


def _replay(house: House, task_id: str, bearer: Bearer, why: str) -> Json:
    dead.replay(house, [task_id], actor=actor(bearer), why=why, tenant=bearer.tenant)
    return insight.find_task(house, task_id, bearer.tenant)


@router.post(
    "/{task_id}/answer",
    summary="Answer a task's question",
    responses=_CHANGES,
    openapi_extra=takes(schemas.Choice),
)
async def answer_task(
    web: WebContext,
    bearer: Operator,
    task_id: TaskId,
    body: Annotated[schemas.Choice, Depends(body_of(schemas.Choice))],
) -> JSONResponse:
    """The task goes on with the choice."""
    task = await web.rooms.call(
        tasks.answer, web.house, task_id, body.choice, actor=actor(bearer), step=body.step, tenant=bearer.tenant
    )
    return JSONResponse(task)
