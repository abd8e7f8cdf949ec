"""What may be stated about each gate of a playbook: its settings, and the fields that they name."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from nightdesk.canonical import Json
from nightdesk.playbook.statement import Part, Text

_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]+")


def _place(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", value, re.ASCII):
        raise ValueError("must be a field, as in title or claims.source; a field of a list means that of each item")
    return value


def _host(value: object) -> object:
    if isinstance(value, str) and not _HOST.fullmatch(value):
        raise ValueError("must be a host in small letters, as in example.com, or *.example.com for all below it")
    return value


Place = Annotated[Text, BeforeValidator(_place)]
Host = Annotated[Text, BeforeValidator(_host)]
Phrase = Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)]
Share = Annotated[float, Field(ge=0, le=1)]
_Amount = Annotated[int, Field(ge=0, le=10_000_000)]


class Settings(Part):
    """`field` is the part of the draft that is looked at; without it all of its text is."""

    field: Place | None = None

    @property
    def in_draft(self) -> list[str]:
        """The places in the draft that it names."""
        return [self.field] if self.field is not None else []

    @property
    def in_input(self) -> list[str]:
        return []


class Length(Settings):
    unit: Literal["characters", "words", "items"] = "characters"
    min: _Amount | None = None
    max: _Amount | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> "Length":
        if self.min is None and self.max is None:
            raise ValueError("must state `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("has a `min` above its `max`")
        if self.unit == "items" and self.field is None:
            raise ValueError("must state the `field` whose items are counted")
        return self


class Readability(Settings):
    """`min` is the Flesch reading ease: 60 is plain language, 30 is hard, 0 is a statute."""

    min: float = Field(default=40, ge=-100, le=120)
    language: Literal["de", "en", "es", "fr", "it", "nl"] = "en"


class Sources(Settings):
    """Each item of `claims` must name a `source`, one of those that the input gives in `among` where that is stated."""

    field: None = None
    claims: Place
    source: Annotated[Text, BeforeValidator(_place)] = "source"
    among: Place | None = None
    least: _Amount = 0

    @property
    def in_draft(self) -> list[str]:
        return [f"{self.claims}.{self.source}"]

    @property
    def in_input(self) -> list[str]:
        return [self.among] if self.among is not None else []


class NoPromptLeak(Settings):
    """`words` in a row that are the instructions' own; `also` are further phrases that give a model away."""

    words: int = Field(default=10, ge=4, le=100)
    also: list[Phrase] = Field(default=[])


class Phrases(Settings):
    phrases: list[Phrase] = Field(default=[])
    from_: Place | None = Field(default=None, alias="from")

    @model_validator(mode="after")
    def _names_some(self) -> "Phrases":
        if not self.phrases and self.from_ is None:
            raise ValueError("must state `phrases`, or with `from` the field of the input that has them")
        return self

    @property
    def in_input(self) -> list[str]:
        return [self.from_] if self.from_ is not None else []


class Required(Phrases):
    """With `any` one of the phrases is enough."""

    any: bool = False


class Forbidden(Phrases):
    pass


class Schema(Settings):
    """`type` is stricter than `output`, in the same notation."""

    type: Json


class Duplicate(Settings):
    """`max` is how much of the text, in runs of four words, may be in one earlier draft."""

    max: float = Field(default=0.8, ge=0.5, lt=1)


class Links(Settings):
    """Only addresses of these hosts are looked at, up to `most`; `others` says what a link elsewhere is."""

    hosts: list[Host] = Field(max_length=100)
    others: Literal["refuse", "skip"] = "refuse"
    most: int = Field(default=20, ge=1, le=100)


class Numbers(Settings):
    """At most `new` numbers that the input has not, and at most `lost` of those in its fields `from`.

    `counting` is how far one may count: whole numbers up to it are always allowed.
    """

    from_: list[Place] = Field(default=[], alias="from")
    new: _Amount = 0
    lost: _Amount | None = None
    counting: int = Field(default=0, ge=0, le=100)

    @property
    def in_input(self) -> list[str]:
        return self.from_


class Judge(Settings):
    """A model, by itself, gives each criterion 0 to 1; every one must reach `min`."""

    criteria: list[Phrase] = Field(min_length=1, max_length=20)
    min: Share = 0.7
    model: Text | None = None


GATES: dict[str, type[Settings]] = {
    "length": Length,
    "readability": Readability,
    "sources": Sources,
    "no_prompt_leak": NoPromptLeak,
    "required": Required,
    "forbidden": Forbidden,
    "schema": Schema,
    "duplicate": Duplicate,
    "links": Links,
    "numbers": Numbers,
    "judge": Judge,
}
