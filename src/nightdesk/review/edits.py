"""A person's edits of a draft: fields of the playbook's output, checked as the model's own answer was."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from nightdesk.canonical import Json, canonical, changes
from nightdesk.errors import Invalid
from nightdesk.playbook import Playbook
from nightdesk.playbook.faults import fields_of, hint
from nightdesk.review.gatekeeper import PURE
from nightdesk.review.material import Material
from nightdesk.work.draft import Verdict


def edited(playbook: Playbook, payload: Json, edits: Mapping[str, Json] | None) -> Json:
    """The draft with these fields instead of its own; Invalid names every fault."""
    if not edits:
        raise Invalid("There is nothing to edit", [("edits", "has no fields")], "Name fields with their new values.")
    if payload is not None and not isinstance(payload, dict):
        raise Invalid("This draft has no fields to edit", [("edits", "is for drafts with fields")], "Send it back.")
    known = list(fields_of(playbook.output)) or list(payload or edits)
    faults = [(f"edits.{name}", f"is no field of the draft{hint(name, known)}") for name in edits if name not in known]
    if faults:
        raise Invalid("The edits do not fit the draft", faults, "Mend these and save again.")
    new = playbook.check_output({**(payload or {}), **edits})
    if canonical(new) == canonical(payload):
        raise Invalid("The edits change nothing", [("edits", "are what is there")], "Approve it as it is.")
    return new


def diff(before: Json, after: Json) -> list[dict[str, Json]]:
    return [asdict(change) for change in changes(before, after)]


def looked_at_again(playbook: Playbook, order: Json, payload: Json, told: list[dict[str, Any]]) -> list[Verdict]:
    """The verdicts on an edited draft: gates that only read look again, what others have said of the draft stands."""
    verdicts = [Verdict(**verdict) for verdict in told]
    if [gate.name for gate in playbook.gates] != [verdict.gate for verdict in verdicts]:
        return verdicts
    material = Material(payload, order, str(playbook.definition.get("instructions") or ""))
    return [
        replace(PURE[type(gate.settings)](gate.settings, material), gate=gate.name)  # type: ignore[index]
        if gate.run is None and type(gate.settings) in PURE
        else verdict
        for gate, verdict in zip(playbook.gates, verdicts, strict=True)
    ]
