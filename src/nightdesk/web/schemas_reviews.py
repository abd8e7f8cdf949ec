"""What requests and answers about the desk look like."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from nightdesk.canonical import Json
from nightdesk.web.schemas import TEXT, Money, RequestBody, Time

# A task's id, or `q.TASK.STEP`, or `b.SCOPE.NAME.DAY`; in their names `~20` stands for a space, and so on.
ITEM = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,999}$"

_LARGEST = 1e15
# What a field of a draft may hold: JSON that every database keeps, however deep.
STORABLE: dict[str, Any] = {
    "title": "Storable",
    "anyOf": [
        {"type": "null"},
        {"type": "boolean"},
        {"type": "number", "minimum": -_LARGEST, "maximum": _LARGEST},
        {"type": "string", "pattern": TEXT},
        {"type": "array", "items": {"$ref": "#/components/schemas/Storable"}},
        {"$ref": "#/components/schemas/StorableFields"},
    ],
}
STORABLE_FIELDS: dict[str, Any] = {
    "title": "StorableFields",
    "type": "object",
    "propertyNames": {"pattern": TEXT},
    "additionalProperties": {"$ref": "#/components/schemas/Storable"},
}
_FIELDS = {"anyOf": [{"$ref": "#/components/schemas/StorableFields"}, {"type": "null"}]}

Kind = Literal["draft", "question", "budget"]
Risk = Literal["internal", "reversible", "customer", "irreversible"]
Verb = Literal["approve", "edit", "send_back", "reject", "later", "undo"]


class Decision(RequestBody):
    """A decision on exactly what was seen."""

    verb: Verb
    hash: str = Field(min_length=1, max_length=64, pattern=TEXT, description="Of what was seen: `hash` of the review.")
    edits: Annotated[dict[str, Any] | None, WithJsonSchema(_FIELDS)] = Field(
        None, description="For edit: fields of the draft; `choice` for a question, `dollars` for a budget."
    )
    reason: str | None = Field(
        None, max_length=500, pattern=TEXT, description="For later: `end` of the queue, `tomorrow`, or a moment."
    )
    note: str | None = Field(None, max_length=4000, pattern=TEXT)


class ReviewFilters(BaseModel):
    """Which items to list. A parameter that is not known is refused: ignored, it would list too much."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind | None = None
    playbook: str | None = Field(None, max_length=200, pattern=TEXT)
    risk: Risk | None = None
    tenant: str | None = Field(None, max_length=200, pattern=TEXT)
    failed: Literal["true", "false"] | None = Field(None, description="Whether its gates found something.")
    later: Literal["true", "false"] = Field("false", description="What was put off, instead of what is due.")
    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=1000, pattern="^[A-Za-z0-9_-]+$", description="From `next_cursor`.")


class ReviewSummary(BaseModel):
    id: str
    kind: Kind
    playbook: str | None
    title: str | None
    tenant: str | None
    priority: Literal["P0", "P1", "P2", "P3"] | None
    version: int | None
    hash: str
    sentence: str
    risk: Risk | None
    why_here: str
    passed: bool | None = Field(description="Whether its gates found nothing; null where none has looked.")
    laid_at: Time | None
    deadline: Time | None
    later_until: Time | None
    leased_by: str | None


class ReviewCounts(BaseModel):
    """Of the drafts that the filters leave."""

    left: int = Field(ge=0)
    total: int = Field(ge=0, description="With those that were decided on today.")
    minutes_left: float = Field(ge=0)
    later: int = Field(ge=0)


class ReviewPage(BaseModel):
    items: list[ReviewSummary]
    next_cursor: str | None = Field(description="Pass it as `cursor` to go on; null at the end.")
    counts: ReviewCounts


class Seeded(BaseModel):
    """Told once it was answered: the draft was known to be bad."""

    caught: bool
    why: str


class Outcome(BaseModel):
    """Where an item stands, and the decision that brought it there, if one did."""

    id: str
    kind: Kind
    state: str
    hash: str
    version: int | None
    verb: Verb | None
    actor: str | None
    channel: str | None
    at: Time | None
    reason: str | None
    note: str | None
    diff: Json
    final: bool
    awaits: str | None = Field(description="What it still takes.")
    undone_by: str | None
    can_undo: bool
    seeded: Seeded | None


class GateVerdict(BaseModel):
    gate: str
    field: str
    passed: bool
    value: Json
    threshold: Json
    evidence: list[str]


class Evidence(BaseModel):
    claim: str
    sources: list[str]
    snippets: list[str]
    links: list[str]
    supported: bool
    wants: str


class Hidden(BaseModel):
    place: str
    characters: list[str]


class Provenance(BaseModel):
    playbook: str
    playbook_version: str
    models: list[str]
    attempt: int = Field(ge=1)
    cost_usd: Money
    laid_at: Time


class Told(BaseModel):
    """An earlier decision."""

    verb: Verb
    actor: str
    channel: str
    reason: str | None
    note: str | None
    final: bool
    diff: Json
    undone_by: str | None
    at: Time


class Lease(BaseModel):
    holder: str
    until: Time


class Review(BaseModel):
    """All that a decision rests on."""

    id: str
    kind: Kind
    playbook: str | None
    title: str
    tenant: str | None
    priority: Literal["P0", "P1", "P2", "P3"] | None
    version: int | None
    state: str
    hash: str
    sentence: str
    risk: Risk | None
    risk_reason: str | None
    why_here: str
    payload: Json
    input: Json
    hidden: list[Hidden] = Field(description="Where it holds characters that nobody sees.")
    gates: list[GateVerdict]
    evidence: list[Evidence]
    impact: str | None
    rollback: str | None
    deadline: Time | None
    at_deadline: str | None
    provenance: Provenance | None
    changed: Told | None = Field(description="Since it was sent back; `diff` is between the two drafts.")
    history: list[Told]
    checklist: list[str]
    reasons: list[str]
    verbs: list[Verb]
    may_not: str | None = Field(description="Why whoever asks may not approve it.")
    awaits: str | None
    lease: Lease | None
    later_until: Time | None
    outcome: Outcome | None
