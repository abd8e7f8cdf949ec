"""The morning summary: what the night came to, and what is to be done about it, in a few lines."""

from typing import Any

import sqlalchemy as sa

from nightdesk.errors import NotFound
from nightdesk.failpoints import failpoint
from nightdesk.guard.masking import mask
from nightdesk.house import House
from nightdesk.night.schedule import Night
from nightdesk.store import nights
from nightdesk.watch.apprise import post_message


def summarise_due(house: House) -> int:
    """Tell of the nights whose summary is due, each once; the answer is how many that were."""
    now = house.clock.now()
    due = (nights.c.state == "closed") & nights.c.summarised_at.is_(None) & (nights.c.summary_at <= now)
    with house.db.read() as conn:
        found = list(conn.execute(sa.select(nights).where(due).order_by(nights.c.starts_at)).mappings())
    return sum(_tell(house, night) for night in found)


def closed_night(house: House, name: str | None) -> Night:
    """The night of this name, or the last one."""
    query = sa.select(nights).where(nights.c.state == "closed").order_by(nights.c.closed_at.desc())
    if name is not None:
        query = query.where(nights.c.name == name)
    with house.db.read() as conn:
        night = conn.execute(query.limit(1)).mappings().one_or_none()
    if night is None:
        raise NotFound(
            f"There is no night {name} that is closed." if name else "No night is closed yet.", "See: nightdesk night"
        )
    return night


def summary_of(night: Night) -> tuple[str, str]:
    """Heading and text."""
    figures = night["figures"]
    told = figures["exceptions"]
    lines = [
        f"New: {figures['new']} | Done: {figures['done']} | Exceptions: {told}",
        f"Breaches: {', '.join(f'{count} {priority}' for priority, count in _breaches(figures))}",
        f"Action: approve {_counted(_to_approve(figures), 'draft')} and assign {_counted(told, 'exception')}",
        f"Cost: ${figures['cost_usd']}, with ${figures['saved_usd']} saved by waiting",
    ]
    if figures["waiting"]:
        waiting = ", ".join(f"{count} {why}" for why, count in sorted(figures["waiting"].items()))
        lines.append(f"Still waiting: {waiting}")
    if night["opened_at"] is None:
        lines.append("The night never started.")
    return f"Nightdesk: the night of {night['name']}", "\n".join(lines)


def _tell(house: House, night: Night) -> bool:
    now = house.clock.now()
    heading, text = summary_of(night)
    untold = (nights.c.name == night["name"]) & nights.c.summarised_at.is_(None)
    with house.db.write() as conn:
        if not conn.execute(nights.update().where(untold).values(summarised_at=now)).rowcount:
            return False
        post_message(conn, now, house.settings.notify, "summary", mask(heading), mask(text))
    failpoint("night-summarised")
    return True


def _breaches(figures: dict[str, Any]) -> list[tuple[str, int]]:
    """The most urgent two always, the others where there are some."""
    return [item for item in sorted(figures["breaches"].items()) if item[1] or item[0] in ("P0", "P1")]


def _to_approve(figures: dict[str, Any]) -> int:
    """Those on the desk without the ones that are exceptions."""
    return int(figures["review"] - (figures["exceptions"] - figures["dead"]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
