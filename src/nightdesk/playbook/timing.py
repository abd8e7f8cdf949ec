"""Reading `when:`: now, night, cron with a time zone, after another playbook, debounced, at a depth, at an event."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from nightdesk.canonical import Json
from nightdesk.playbook.definition import When
from nightdesk.playbook.faults import Fault, found_by_pydantic
from nightdesk.playbook.statement import Name, Part, Seconds, Text, Zone


def _cron(value: object) -> object:
    from croniter import croniter  # here, as few playbooks have a cron and every command loads this module

    if isinstance(value, str):
        try:
            croniter(value, datetime(2024, 1, 1, tzinfo=UTC), second_at_beginning=True).get_next()
        except ValueError:
            raise ValueError("must be a cron line that comes up, such as `0 4 * * *` for daily at four") from None
    return value


class _Cron(Part):
    cron: Annotated[Text, BeforeValidator(_cron)]
    zone: Zone = "UTC"
    input: dict[str, Json] = Field(default_factory=dict)

    def when(self) -> When:
        return When(kind="cron", cron=self.cron, zone=self.zone, input=self.input)


class _After(Part):
    after: Name

    def when(self) -> When:
        return When(kind="after", after=self.after)


class _Debounce(Part):
    debounce: Seconds = 90.0

    def when(self) -> When:
        return When(kind="debounce", seconds=self.debounce)


class _Depth(Part):
    depth: int = Field(ge=1, le=100_000)
    longest: Seconds = 3600.0

    def when(self) -> When:
        return When(kind="depth", depth=self.depth, seconds=self.longest)


class _Event(Part):
    event: Name

    def when(self) -> When:
        return When(kind="event", event=self.event)


_KINDS: dict[str, type[_Cron | _After | _Debounce | _Depth | _Event]] = {
    "cron": _Cron, "after": _After, "debounce": _Debounce, "depth": _Depth, "event": _Event,
}  # fmt: skip
_FORMS = "now, night, debounce, {cron: ...}, {after: playbook}, {debounce: 90s}, {depth: 20} or {event: name}"


def read_when(stated: object, faults: list[Fault]) -> When:
    """The When that is stated. Where it has faults they are added, and the answer is not to be used."""
    if stated == "now":
        return When(kind="now")
    if stated == "night":
        return When(kind="night")
    if stated == "debounce":
        return _Debounce().when()
    kind = next((word for word in _KINDS if isinstance(stated, Mapping) and word in stated), None)
    if kind is None:
        faults.append((("when",), f"must be {_FORMS}"))
        return When()
    try:
        return _KINDS[kind].model_validate(stated).when()
    except ValidationError as error:
        faults += found_by_pydantic(error, _KINDS[kind], "key", ("when",))
        return When()
