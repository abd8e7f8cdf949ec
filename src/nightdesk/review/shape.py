"""The gate for a form that is stricter than the playbook's output."""

from pydantic import ValidationError

from nightdesk.canonical import canonical
from nightdesk.playbook.faults import dotted, found_by_pydantic
from nightdesk.playbook.gates import Schema
from nightdesk.review.material import Material, verdict
from nightdesk.review.places import values_at
from nightdesk.work.draft import Verdict


def schema(settings: Schema, material: Material) -> Verdict:
    """What stands at the place, or the whole draft, is of the type; a place that is not there is not."""
    found = list(values_at(material.draft, settings.field))
    faults = [] if found else [f"there is no {settings.field}"]
    for here in found:
        try:
            settings.type.model_validate_json(canonical({"value": here.value}))
        except ValidationError as error:
            for (_, *path), text in found_by_pydantic(error, settings.type, "field"):
                faults.append(f"{dotted((*([here.place] if here.place else []), *path)) or 'it'} {text}")
    return verdict(
        settings, passed=not faults, value=f"{len(faults)} faults", threshold="the stated type", evidence=faults
    )
