"""What may be right and is not wise: limits that are not stated, nothing to test a change by, nobody who is told."""

from collections.abc import Iterator
from dataclasses import dataclass

from nightdesk.house import House
from nightdesk.night.ticks import idle_crons
from nightdesk.playbook import Playbook, Registry
from nightdesk.playbook.golden import read_golden
from nightdesk.playbook.registry import SHIPPED
from nightdesk.watch.apprise import addresses

_LONG_CHAIN = 3


@dataclass(frozen=True)
class Advice:
    """`rule` is a name to look for; `playbook` is empty where it is about the house."""

    rule: str
    playbook: str
    says: str
    mend: str


def advise(house: House) -> list[Advice]:
    """About the house and its own playbooks; those that ship with Nightdesk are not the house's to mend."""
    own = [playbook for playbook in house.registry if not _is_shipped(playbook)]
    found = [advice for playbook in own for advice in _about(house, playbook)]
    return [*_notification(house), *_idle(house), *_chains(house.registry), *found]


def _about(house: House, playbook: Playbook) -> Iterator[Advice]:
    if playbook.asking.use is None:
        return
    missing = _missing_limits(house, playbook)
    if missing:
        says = f"It asks models, and does not state {', '.join(missing)}; what it may cost is bounded by others alone."
        yield Advice("limits", playbook.name, says, "State them under limits: and budget: in the playbook.")
    if not read_golden(playbook):
        says = "It has no golden cases, so nothing tells whether a change made it worse."
        yield Advice("golden", playbook.name, says, "State golden: cases.jsonl, and test with: nightdesk test")


def _missing_limits(house: House, playbook: Playbook) -> list[str]:
    stated = playbook.definition.get("limits") or {}
    missing = [f"limits.{name}" for name in ("turns", "tokens", "time") if stated.get(name) is None]
    if playbook.asking.task_cap is None and not house.settings.budget.task:
        missing.append("budget.task")
    return missing


def _notification(house: House) -> Iterator[Advice]:
    if not addresses(house.settings.notify, "alert"):
        mend = 'State where alerts go in nightdesk.toml: [notify] urls = ["env:CHAT_URL"]'
        yield Advice("notification", "", "Nobody is told when the night goes wrong.", mend)


def _idle(house: House) -> Iterator[Advice]:
    for idle in idle_crons(house.db, house.registry):
        says = f"{idle.empty} of its last {idle.ticks} ticks found nothing to do."
        mend = "Make it event-driven: when: {event: name}, or let it tick less often."
        yield Advice("event-driven", idle.playbook, says, mend)


def _chains(registry: Registry) -> Iterator[Advice]:
    """Rows of stages of which each has one before it and one behind it at most: the night waits for each in turn."""
    ahead = {playbook.name: _next_stages(playbook, registry) for playbook in registry}
    behind = [name for stages in ahead.values() for name in stages]
    for name in (name for name in ahead if name not in behind):
        chain = [name]
        while len(stages := ahead[chain[-1]]) == 1 and behind.count(stages[0]) == 1:
            chain += stages
        if len(chain) >= _LONG_CHAIN:
            says = f"{' → '.join(chain)}: {len(chain)} stages one after the other, with nothing in parallel."
            yield Advice("chain", name, says, "Emit parts of a stage with desk.emit, or let stages begin together.")


def _next_stages(playbook: Playbook, registry: Registry) -> list[str]:
    after = [other.name for other in registry if other.when.after == playbook.name]
    return list(dict.fromkeys([*playbook.then, *after]))


def _is_shipped(playbook: Playbook) -> bool:
    return playbook.source is not None and SHIPPED in playbook.source.parents
