"""The doctor's checks of the house itself. Each looks at one thing, changes nothing, and says how to mend it."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from nightdesk.cli.database_checks import check_database, open_to_others
from nightdesk.cli.findings import Finding, refused
from nightdesk.errors import NightdeskError
from nightdesk.guard.disk import DiskGuard
from nightdesk.playbook import Registry, load_registry
from nightdesk.settings import Settings, load_settings
from nightdesk.watch.courier import SECRET_FILE, SECRET_VARIABLE, callback_secret


def examine(home: Path) -> Iterator[Finding]:
    """Everything there is to find, the settings first: without them nothing else can be looked at."""
    try:
        settings = load_settings(home)
    except NightdeskError as error:
        yield from refused("settings", error)
        return
    yield Finding("settings", "ok", "nightdesk.toml and the environment are valid.")
    registry = yield from _playbooks(home)
    yield from _disk(home, settings)
    yield from _secret(home)
    yield from check_database(home, settings, registry)


def _playbooks(home: Path) -> Generator[Finding, None, Registry]:
    try:
        registry = load_registry(home)
    except NightdeskError as error:
        yield from refused("playbooks", error)
        return Registry()
    yield Finding("playbooks", "ok", f"{len(registry)} are valid.")
    return registry


def _disk(home: Path, settings: Settings) -> Iterator[Finding]:
    guard = DiskGuard(home, settings.disk)
    free = guard.free()
    says = f"{free.bytes // 1_000_000} MB free ({free.percent:.0f} %)."
    if guard.low():
        yield Finding("disk", "bad", f"{says} Nothing more is accepted.", "Free space, or move the house.")
    elif guard.warn():
        yield Finding("disk", "warn", says, "Free space soon; [disk] in nightdesk.toml has the limits.")
    else:
        yield Finding("disk", "ok", says)


def _secret(home: Path) -> Iterator[Finding]:
    file = home / SECRET_FILE
    if not os.environ.get(SECRET_VARIABLE) and not file.exists():
        yield Finding("callback secret", "ok", f"It will be made in {SECRET_FILE} at the first callback.")
        return
    try:
        callback_secret(home)
    except NightdeskError as error:
        yield from refused("callback secret", error)
        return
    if file.exists() and open_to_others(file):
        yield Finding("callback secret", "bad", f"Others may read {SECRET_FILE}.", f"Run: chmod 600 {file}")
    else:
        yield Finding("callback secret", "ok", "It is there, and for its owner alone.")
