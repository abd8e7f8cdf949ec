"""Alerts: what is wrong and needs somebody soon. One is open per kind and subject, and told of once."""

from datetime import datetime

import sqlalchemy as sa

from nightdesk.canonical import digest
from nightdesk.settings import NotifySettings
from nightdesk.store import Database, alerts
from nightdesk.watch.apprise import post_message
from nightdesk.watch.events import record
from nightdesk.watch.logs import get_logger

Subject = tuple[str, str]  # kind, and what it is about: a night, a breaker, a budget

_LOCK = "nightdesk-alerts"
_log = get_logger("nightdesk.alerts")


def open_alerts(conn: sa.Connection) -> dict[Subject, str]:
    """Why each of them was raised."""
    query = sa.select(alerts.c.kind, alerts.c.subject, alerts.c.why).where(alerts.c.cleared_at.is_(None))
    return {(row.kind, row.subject): row.why for row in conn.execute(query.order_by(alerts.c.raised_at))}


def raise_alert(
    db: Database, conn: sa.Connection, at: datetime, notify: NotifySettings, about: Subject, why: str
) -> bool:
    """Open an alert and tell people; false if it is open already. `why` is told as it stands."""
    db.lock(conn, _LOCK)
    if about in open_alerts(conn):
        return False
    kind, subject = about
    row = {"id": f"alert_{digest(kind, subject, at.isoformat())[:24]}", "kind": kind, "subject": subject}
    conn.execute(alerts.insert(), {**row, "why": why, "raised_at": at})
    _record(conn, at, about, "raised", why)
    post_message(conn, at, notify, "alert", f"Nightdesk: {kind} ({subject})", why)
    _log.error("An alert was raised.", action="alert", kind=kind, subject=subject, why=why)
    return True


def clear_alert(db: Database, conn: sa.Connection, at: datetime, about: Subject) -> bool:
    """What it told of is over; it may be raised anew."""
    db.lock(conn, _LOCK)
    kind, subject = about
    is_it = (alerts.c.kind == kind) & (alerts.c.subject == subject) & alerts.c.cleared_at.is_(None)
    if not conn.execute(alerts.update().where(is_it).values(cleared_at=at)).rowcount:
        return False
    _record(conn, at, about, "cleared", "it is over")
    return True


def _record(conn: sa.Connection, at: datetime, about: Subject, state: str, why: str) -> None:
    kind, subject = about
    record(conn, at, "alert", cause=why, actor="vigil", state=state, detail={"kind": kind, "subject": subject})
