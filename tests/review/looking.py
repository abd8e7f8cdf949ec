"""One gate, held against one draft."""

from typing import Any

from nightdesk.canonical import Json
from nightdesk.playbook.gates import GATES
from nightdesk.review.gatekeeper import PURE
from nightdesk.review.material import Material
from nightdesk.work.draft import Verdict


def look(name: str, draft: Json, input: Json = None, instructions: Any = "", **settings: Any) -> Verdict:
    found = GATES[name].model_validate(settings)
    return PURE[type(found)](found, Material(draft, input or {}, instructions))
