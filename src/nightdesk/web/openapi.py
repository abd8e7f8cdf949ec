"""The OpenAPI document: true of this house, whose playbooks say what a task's input is."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nightdesk.house import House
from nightdesk.playbook import Playbook
from nightdesk.web import schemas, schemas_reviews
from nightdesk.web.problems import MEDIA_TYPE

Schema = dict[str, Any]
Responses = dict[int | str, Schema]

_REF = "#/components/schemas/"
_MODELS = (
    schemas.Task, schemas.TaskPage, schemas.Reason, schemas.Choice,
    schemas_reviews.ReviewPage, schemas_reviews.Review, schemas_reviews.Decision, schemas_reviews.Outcome,
    schemas.Live, schemas.Ready, schemas.ProblemDocument,
)  # fmt: skip
_TEXT: Schema = {"schema": {"type": "string"}, "required": True}
_SECONDS: Schema = {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait."}
_HEADERS: dict[int, Schema] = {
    202: {
        "Location": _TEXT | {"description": "Where the task is."},
        "Idempotent-Replayed": {
            "schema": {"const": "true"},
            "description": "This is the answer to an earlier request.",
        },
    },
    401: {"WWW-Authenticate": _TEXT},
    403: {"WWW-Authenticate": _TEXT},
    409: {"Retry-After": _SECONDS},
    429: {"Retry-After": _SECONDS | {"required": True}},
    503: {"Retry-After": _SECONDS | {"required": True}},
}
_AUTHENTICATED = (401, 403, 422, 429, 503)


def answers(status: int | None, model: type[BaseModel] | None, *problems: int) -> Responses:
    """The `responses` of an operation. One that asks for a token names none of the problems that tokens bring."""
    found: Responses = {number: _problem(number) for number in problems}
    if status is not None and model is not None:
        found[status] = _described(status, "application/json", model.__name__)
    return found


def _problem(status: int) -> Schema:
    return _described(status, MEDIA_TYPE, schemas.ProblemDocument.__name__)


def _described(status: int, media_type: str, model: str) -> Schema:
    content = {media_type: {"schema": {"$ref": _REF + model}}}
    described: Schema = {"description": HTTPStatus(status).phrase, "content": content}
    return described | ({"headers": _HEADERS[status]} if status in _HEADERS else {})


def takes(model: type[BaseModel], *, optional: bool = False) -> Schema:
    """The `openapi_extra` of an operation with a JSON body."""
    content = {"application/json": {"schema": {"$ref": _REF + model.__name__}}}
    return {"requestBody": {"required": not optional, "content": content}}


def document(app: FastAPI, house: House) -> Callable[[], Schema]:
    """What FastAPI calls to get the document; it is made once."""

    def made() -> Schema:
        if not app.openapi_schema:
            app.openapi_schema = _make(app, house)
        return app.openapi_schema

    return made


def _make(app: FastAPI, house: House) -> Schema:
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    known = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own refusals, which are ours here
        known.pop(unused, None)
    known.update(_model_schemas())
    known.update(_task_schemas(house))
    for operations in made["paths"].values():
        for operation in operations.values():
            _mend(operation)
    _ask_for_key(made["paths"]["/v1/tasks"]["post"], required=house.settings.api.require_idempotency_key)
    return made


def _mend(operation: Schema) -> None:
    responses = operation["responses"]
    if "security" in operation:
        responses.update({str(status): _problem(status) for status in _AUTHENTICATED})
    for status in list(responses):
        if "HTTPValidationError" in str(responses[status]):
            del responses[status]


def _model_schemas() -> Schema:
    _, made = models_json_schema([(model, "validation") for model in _MODELS], ref_template=_REF + "{model}")
    found: Schema = made["$defs"]
    return found | {"Storable": schemas_reviews.STORABLE, "StorableFields": schemas_reviews.STORABLE_FIELDS}


def _task_schemas(house: House) -> Schema:
    """NewTask, once for each playbook, with that playbook's own input."""
    found: Schema = {}
    for playbook in house.registry:
        name = f"NewTask.{playbook.name}"
        found[name] = _new_task(playbook, found)
    found["NewTask"] = {"oneOf": [{"$ref": _REF + name} for name in list(found) if name.startswith("NewTask.")]}
    return found


def _new_task(playbook: Playbook, definitions: Schema) -> Schema:
    prefix = f"{playbook.name}."
    asked = playbook.input.model_json_schema(ref_template=f"{_REF}{prefix}{{model}}")
    definitions.update({prefix + name: _storable(schema) for name, schema in asked.pop("$defs", {}).items()})
    made = schemas.NewTask.model_json_schema()
    made["properties"] |= {
        "playbook": {"const": playbook.name, "description": playbook.title},
        "input": _storable(asked),
    }
    return made


def _storable(schema: Any) -> Any:
    """The schema with what intake asks of all text and numbers, where the playbook says nothing narrower."""
    if isinstance(schema, list):
        return [_storable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _storable(value) for key, value in schema.items()}
    if found.get("type") == "string" and not found.keys() & {"pattern", "format", "enum", "const"}:
        found["pattern"] = schemas.TEXT
    if found.get("type") in ("integer", "number"):
        found.setdefault("minimum", -1e15)
        found.setdefault("maximum", 1e15)
    return found


def _ask_for_key(operation: Schema, *, required: bool) -> None:
    asked = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": required,
        "schema": {"type": "string", "pattern": schemas.IDEMPOTENCY_KEY},
        "description": "A fresh one with each new task; the same request with the same key gets the first answer.",
    }
    operation.setdefault("parameters", []).append(asked)
