"""For schemathesis: what the document cannot say. An Idempotency-Key that came before with another body is refused,
as it must be, so every request that is meant to be good gets a fresh one."""

import uuid
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    negated = case.meta is not None and case.meta.is_negative_at(ParameterLocation.HEADER)
    if "Idempotency-Key" in (case.headers or {}) and not negated:
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
