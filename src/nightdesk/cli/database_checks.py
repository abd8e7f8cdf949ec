"""The doctor's checks of the database, and of what it tells: clock, workers, switches, audit trail."""

import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from nightdesk.cli.findings import Finding, refused
from nightdesk.clock import SystemClock
from nightdesk.engine import workers
from nightdesk.errors import NightdeskError
from nightdesk.guard.switches import active_switches
from nightdesk.night.ticks import idle_crons
from nightdesk.playbook import Registry
from nightdesk.settings import Settings, database_url
from nightdesk.store import Database, events, open_database, pending_migrations
from nightdesk.watch.audit import read_head

_PATIENCE_SECONDS = 5
_SKEW_SECONDS = 2.0


def open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def check_database(home: Path, settings: Settings, registry: Registry) -> Iterator[Finding]:
    address = database_url(settings, home)
    try:
        url = sa.make_url(address)
    except sa.exc.ArgumentError:
        yield Finding("database", "bad", "Its address is none.", "Give a sqlite:/// or postgresql:// address.")
        return
    file = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    if file and not file.exists():
        yield Finding("database", "warn", f"There is no {file.name} yet.", "It is made by: nightdesk up")
        return
    shown = url.render_as_string(hide_password=True)
    try:
        yield from _look_inside(address, shown, file, home / settings.audit.head_file, registry)
    except NightdeskError as error:
        yield from refused("database", error)
    except sa.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        yield Finding("database", "bad", f"{shown} cannot be used ({reason}).", "Start it, or mend its address.")


def _look_inside(address: str, shown: str, file: Path | None, head_file: Path, registry: Registry) -> Iterator[Finding]:
    db = open_database(address, patience_seconds=_PATIENCE_SECONDS)
    try:
        if pending_migrations(db):
            yield Finding("database", "bad", f"The tables in {shown} are not of this version.", "Run: nightdesk up")
            return
        yield Finding("database", "ok", f"{shown} answers, and its tables are up to date.")
        yield from _sqlite(db, file) if file else _clock(db)
        yield from _workers(db)
        yield from _switches(db)
        yield from _audit(db, head_file)
        yield from _schedules(db, registry)
    finally:
        db.close()


def _schedules(db: Database, registry: Registry) -> Iterator[Finding]:
    for idle in idle_crons(db, registry):
        says = f"{idle.playbook}: {idle.empty} of its last {idle.ticks} ticks found nothing to do."
        yield Finding("schedules", "warn", says, "Make it event-driven: when: {event: name}")


def _sqlite(db: Database, file: Path) -> Iterator[Finding]:
    with db.read() as conn:
        version = conn.execute(sa.text("SELECT sqlite_version()")).scalar_one()
        journal = conn.execute(sa.text("PRAGMA journal_mode")).scalar_one()
        whole = conn.execute(sa.text("PRAGMA quick_check(1)")).scalar_one()
    if whole != "ok":
        yield Finding("sqlite", "bad", f"The file is damaged: {whole}", "Stop the house and put a backup in its place.")
    else:
        yield Finding("sqlite", "ok", f"SQLite {version}, journal mode {journal}; the file is whole.")
    if open_to_others(file):
        yield Finding("sqlite", "bad", f"Others may read {file.name}.", f"Run: chmod 600 {file}")


def _clock(db: Database) -> Iterator[Finding]:
    clock = SystemClock()
    with db.read() as conn:
        conn.execute(sa.select(1))  # the first query pays for connecting, which would count as skew
        before = clock.now()
        theirs = db.now(conn)
        skew = abs((theirs - before - (clock.now() - before) / 2).total_seconds())
    if skew > _SKEW_SECONDS:
        says = f"It differs from the database's by {skew:.1f} s."
        yield Finding("clock", "bad", says, "Synchronise both with a time server (chrony, systemd-timesyncd).")
    else:
        yield Finding("clock", "ok", "It agrees with the database's.")


def _workers(db: Database) -> Iterator[Finding]:
    found = workers(db)
    alive = [worker for worker in found if worker["alive"]]
    if not alive:
        yield Finding("workers", "warn", "None is running, so no task is done.", "Run: nightdesk up")
    else:
        yield Finding("workers", "ok", f"Running: {', '.join(str(worker['name']) for worker in alive)}.")
    if len(alive) < len(found):
        silent = ", ".join(str(worker["name"]) for worker in found if not worker["alive"])
        yield Finding(
            "workers", "warn", f"Silent: {silent}.", "Nothing to do: their work goes on with the next worker."
        )
    processes = Counter((worker["host"], worker["pid"]) for worker in alive)
    if any(count > 1 for count in processes.values()):
        says = "One process holds two slots."
        yield Finding("workers", "bad", says, "Give each container its own host name, or stop one of the two.")


def _switches(db: Database) -> Iterator[Finding]:
    for switch in active_switches(db):
        scope = {"playbook": switch.playbook, "tenant": switch.tenant, "connector": switch.connector}
        named = {name: value for name, value in scope.items() if value}
        says = f"{switch.mode} on {', '.join(f'{n} {v}' for n, v in named.items()) or 'everything'}: {switch.why}"
        flags = "".join(f" --{name} {value}" for name, value in named.items())
        yield Finding("switches", "warn", says, f"To go on: nightdesk resume{flags} --why …")


def _audit(db: Database, head_file: Path) -> Iterator[Finding]:
    head = read_head(head_file)
    with db.read() as conn:
        sealed = conn.execute(sa.select(sa.func.max(events.c.seal_seq))).scalar() or 0
        kept = conn.execute(sa.select(events.c.seal).where(events.c.seal_seq == (head.seq if head else 0))).scalar()
    if head and head.seq and kept != head.seal:
        yield Finding(
            "audit", "bad", "The chain does not contain the head kept beside it.", "Run: nightdesk audit verify"
        )
    elif sealed and not head:
        says = f"There is no {head_file.name}: a cut of the chain would not show."
        yield Finding("audit", "warn", says, "It is made again by the next worker; find out who removed it.")
    else:
        says = f"{sealed} events are sealed, and the kept head is in the chain." if head else "No event is sealed yet."
        yield Finding("audit", "ok", says)
