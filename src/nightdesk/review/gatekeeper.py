"""Holding a draft against every gate of its playbook, as a part of the leg that made it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import Json, jsonable
from nightdesk.guard.egress import Egress
from nightdesk.house import House
from nightdesk.playbook import Playbook, gates
from nightdesk.review import claims, likeness, measures, phrases, shape
from nightdesk.review.judge import judge
from nightdesk.review.links import links
from nightdesk.review.material import Material
from nightdesk.review.own import own
from nightdesk.work.desk import Desk
from nightdesk.work.draft import Draft, Verdict

PURE: dict[type[gates.Settings], Callable[[Any, Material], Verdict]] = {
    gates.Length: measures.length,
    gates.Readability: measures.readability,
    gates.Sources: claims.sources,
    gates.Numbers: claims.numbers_kept,
    gates.Required: phrases.required,
    gates.Forbidden: phrases.forbidden,
    gates.NoPromptLeak: phrases.no_prompt_leak,
    gates.Schema: shape.schema,
}
_QUICK: tuple[type[gates.Settings], ...] = (*PURE, gates.Duplicate)


class Gatekeeper:
    """Handed to the legs of a worker. `egress` is what the gate for links reads the web by."""

    def __init__(self, house: House, egress: Egress | None = None) -> None:
        self._house = house
        self._egress = egress or Egress()

    async def __call__(self, playbook: Playbook, order: Any, payload: Json, desk: Desk) -> Draft:
        if not playbook.gates:
            return Draft(payload)
        return await _Looking(self._house, self._egress, playbook, order, payload, desk).draft()


class _Looking:
    """One draft before its gates. What is quick is one step; a function of the user's and the links are one each; what
    judges ask are calls like any other of the task."""

    def __init__(self, house: House, egress: Egress, playbook: Playbook, order: Any, payload: Json, desk: Desk) -> None:
        self._house = house
        self._egress = egress
        self._playbook = playbook
        self._order = order
        self._desk = desk
        instructions = str(playbook.definition.get("instructions") or "")
        self._material = Material(payload, jsonable(order), instructions)
        kind = f"{playbook.name}/{desk.tenant}"
        self._marks = {
            place: likeness.marks_of(gate.settings, self._material, kind)
            for place, gate in enumerate(playbook.gates)
            if isinstance(gate.settings, gates.Duplicate)
        }

    async def draft(self) -> Draft:
        found = await self._quickly()
        for place in self._places(gates.Settings, gates.Links):
            gate = self._playbook.gates[place]
            name = f"gate {gate.name}"
            told = await self._desk.step(name, self._look_around if gate.run is None else self._look_with_own, place)
            found[place] = Verdict(**told)
        judges = self._places(gates.Judge)
        judged = await asyncio.gather(*(self._judge(place) for place in judges))
        found |= dict(zip(judges, judged, strict=True))
        verdicts = [replace(found[place], gate=gate.name) for place, gate in enumerate(self._playbook.gates)]
        marks = frozenset(mark for own in self._marks.values() for mark in own)
        return Draft(self._material.draft, verdicts, marks, self._look_again if self._marks else None)

    async def _quickly(self) -> dict[int, Verdict]:
        places = self._places(*_QUICK)
        names = [self._playbook.gates[place].name for place in places]
        told = await self._desk.step("gates", self._look_quickly, names) if places else []
        if [verdict["gate"] for verdict in told] != names:  # saved before the playbook's gates were changed
            told = await asyncio.to_thread(self._look_quickly, names)
        return {place: Verdict(**verdict) for place, verdict in zip(places, told, strict=True)}

    def _places(self, *kinds: type[gates.Settings]) -> list[int]:
        return [place for place, gate in enumerate(self._playbook.gates) if type(gate.settings) in kinds]

    def _look_quickly(self, names: list[str]) -> list[dict[str, Any]]:
        with self._house.db.read() as conn:
            found = [self._look(place, conn) for place in self._places(*_QUICK)]
        return [replace(verdict, gate=name).as_json() for name, verdict in zip(names, found, strict=True)]

    def _look(self, place: int, conn: sa.Connection) -> Verdict:
        settings = self._playbook.gates[place].settings
        if isinstance(settings, gates.Duplicate):
            return likeness.duplicate(settings, self._material, conn, self._desk.task_id, self._marks[place])
        return PURE[type(settings)](settings, self._material)  # type: ignore[index] # only such places are asked for

    async def _look_around(self, place: int) -> dict[str, Any]:
        settings = self._playbook.gates[place].settings
        assert isinstance(settings, gates.Links)
        return (await links(settings, self._material, self._egress)).as_json()

    async def _look_with_own(self, place: int) -> dict[str, Any]:
        check = self._playbook.gates[place].run
        assert check is not None
        draft = self._playbook.load_output(self._material.draft)
        return (await own(check, draft, self._order)).as_json()

    async def _judge(self, place: int) -> Verdict:
        settings = self._playbook.gates[place].settings
        assert isinstance(settings, gates.Judge)
        return await judge(settings, self._material, self._desk)

    def _look_again(self, conn: sa.Connection, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
        """Drafts of the same wave are stored within moments of each other: the later one sees the earlier here."""
        return [
            replace(self._look(place, conn), gate=verdict.gate) if place in self._marks and verdict.passed else verdict
            for place, verdict in enumerate(verdicts)
        ]
