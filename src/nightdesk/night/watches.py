"""What every process that serves the house keeps an eye on: whether the night goes well, and that people are told."""

from nightdesk.engine.services import Service
from nightdesk.house import House
from nightdesk.night.summary import summarise_due
from nightdesk.night.vigil import Vigil
from nightdesk.watch.apprise import deliver_messages

_LOOK_SECONDS = 30.0


def watches(house: House) -> list[Service]:
    vigil = Vigil(house)
    return [
        Service("vigil", _LOOK_SECONDS, vigil.look),
        Service("summary", _LOOK_SECONDS, lambda: summarise_due(house)),
        Service("messages", 1.0, lambda: _deliver(house)),
    ]


def _deliver(house: House) -> int:
    settings = house.settings
    return deliver_messages(
        house.db,
        house.clock,
        settings.notify,
        house.home,
        timeout=settings.callbacks.timeout_seconds,
        longest_pause=settings.callbacks.longest_pause_seconds,
    )
