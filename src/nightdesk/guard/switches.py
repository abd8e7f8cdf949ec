"""Switches: rows that pause work, or stop it, for all or for a playbook, a tenant, a connector."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from nightdesk.clock import Clock
from nightdesk.errors import Invalid
from nightdesk.store import Database, switches
from nightdesk.watch.events import record

Mode = Literal["pause", "stop"]
OFF = "off"


@dataclass(frozen=True)
class Switch:
    """Work it covers is not begun; with `stop`, running work ends at its next step. Empty means any."""

    mode: str
    playbook: str
    tenant: str
    connector: str
    why: str
    set_by: str
    set_at: datetime

    def covers(self, playbook: str, tenant: str) -> bool:
        return not self.connector and self.playbook in ("", playbook) and self.tenant in ("", tenant)


_COLUMNS = tuple(switches.c[name] for name in Switch.__dataclass_fields__)


def set_switch(
    db: Database,
    clock: Clock,
    *,
    mode: Mode,
    playbook: str = "",
    tenant: str = "",
    connector: str = "",
    why: str,
    actor: str,
) -> None:
    """Set the switch for this scope, or change the mode and reason of the one that is set."""
    where = {"playbook": playbook, "tenant": tenant, "connector": connector}
    _require_reason(why)
    now = clock.now()
    state = {"mode": mode, "why": why, "set_by": actor, "set_at": now}
    with db.write() as conn:
        db.lock(conn, "nightdesk-switches")
        before = conn.execute(sa.select(switches.c.mode).where(_is_at(where))).scalar() or OFF
        insert = db.upsert(switches).values(**where, **state)
        conn.execute(insert.on_conflict_do_update(index_elements=list(where), set_=state))
        record(conn, now, "switch", cause=why, actor=actor, prior_state=before, state=mode, detail=where)


def clear_switch(
    db: Database, clock: Clock, *, playbook: str = "", tenant: str = "", connector: str = "", why: str, actor: str
) -> bool:
    """Remove the switch of exactly this scope. False: there was none."""
    where = {"playbook": playbook, "tenant": tenant, "connector": connector}
    _require_reason(why)
    with db.write() as conn:
        before = conn.execute(switches.delete().where(_is_at(where)).returning(switches.c.mode)).scalar()
        if before is not None:
            record(conn, clock.now(), "switch", cause=why, actor=actor, prior_state=before, state=OFF, detail=where)
    return before is not None


def active_switches(db: Database) -> list[Switch]:
    """All that are set, the strongest first, then the oldest."""
    with db.read() as conn:
        return switches_in(conn)


def switches_in(conn: sa.Connection) -> list[Switch]:
    """The same in a transaction that the caller has open already."""
    rows = conn.execute(sa.select(*_COLUMNS).order_by(switches.c.set_at, switches.c.id)).all()
    found = [Switch(*row) for row in rows]
    return sorted(found, key=lambda switch: switch.mode != "stop")


class Switchboard:
    """The switches as last read, for many threads to ask. Whoever keeps one refreshes it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._switches: list[Switch] | None = None

    def refresh(self) -> None:
        self._switches = active_switches(self._db)

    def covering(self, playbook: str, tenant: str) -> Switch | None:
        """The strongest switch that covers such a task."""
        if self._switches is None:
            self.refresh()
        return next((switch for switch in self._switches or () if switch.covers(playbook, tenant)), None)


def _is_at(where: dict[str, str]) -> sa.ColumnElement[bool]:
    return sa.and_(*(switches.c[name] == value for name, value in where.items()))


def _require_reason(why: str) -> None:
    if not why.strip():
        raise Invalid("A switch needs a reason", [("why", "is empty")], "Say why; it is kept in the audit trail.")
