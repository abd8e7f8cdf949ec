"""Messages to people, by Apprise: mail, chat, pagers and a hundred more, each stated as a URL; or a file.

They lie in the outbox of notices as callbacks do. Their URLs hold secrets, so a notice has only a mark of its URL, by
which the courier finds it in the settings. What is to be told comes here without personal data and secrets.
"""

import json
import logging
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa

from nightdesk.canonical import digest
from nightdesk.clock import Clock
from nightdesk.settings import NotifySettings
from nightdesk.store import Database
from nightdesk.watch.courier import Answer, Notice, claim, post, settle

APPRISE = "apprise"
Kind = Literal["summary", "alert"]

_VARIABLE, _FILE = "env:", "file:"
_SUMMARY_FILE = "summary.txt"
_HOLD_SECONDS = 120.0
_AT_ONCE = 10
# They tell of the addresses that they send to.
_LOGGERS = ("apprise", "urllib3", "requests")


def addresses(notify: NotifySettings, kind: Kind) -> tuple[str, ...]:
    """Where messages of this kind go. A file takes summaries alone, and one is written if there is no other place."""
    stated = (notify.summary if kind == "summary" else notify.alert) or notify.urls
    if kind == "alert":
        return tuple(address for address in stated if not _is_file(address))
    return stated or (_SUMMARY_FILE,)


def mark(address: str) -> str:
    """The address without what is secret in it: the variable that has it, a file, or the service and a digest."""
    if address.startswith(_VARIABLE) or _is_file(address):
        return address
    return f"{address.partition('://')[0]}#{digest(address)[:12]}"


def post_message(conn: sa.Connection, at: datetime, notify: NotifySettings, kind: Kind, title: str, body: str) -> int:
    """Put a message in the outbox, once for each place; the answer is how many there are."""
    places = addresses(notify, kind)
    payload = {"kind": kind, "title": title, "body": body, "at": at.isoformat()}
    for address in places:
        post(conn, at, APPRISE, mark(address), payload)
    return len(places)


def deliver_messages(
    db: Database, clock: Clock, notify: NotifySettings, home: Path, *, timeout: float, longest_pause: float
) -> int:
    """Send the messages that are due; say how many were tried. What is not taken is tried again, as callbacks are."""
    due = claim(db, clock.now(), _HOLD_SECONDS, _AT_ONCE, APPRISE)
    if due:
        known = {mark(address): address for kind in ("summary", "alert") for address in addresses(notify, kind)}
        answers = [_deliver(notice, known, home, timeout) for notice in due]
        settle(db, due, answers, clock.now(), longest_pause)
    return len(due)


def _deliver(notice: Notice, known: Mapping[str, str], home: Path, timeout: float) -> Answer:
    address = known.get(notice.target)
    if address is None:
        return Answer({"outcome": "its address is not in the settings any more"})
    if address.startswith(_VARIABLE):
        name = address.removeprefix(_VARIABLE)
        address = os.environ.get(name, "")
        if not address:
            return Answer(error=f"the variable {name} is not set")
    told = json.loads(notice.body)
    try:
        return _write(home, address, told) if _is_file(address) else _send(address, told, timeout)
    except Exception as error:  # what it says may have the address in it
        return Answer(error=f"it could not be sent: {type(error).__name__}")


def _send(address: str, told: Mapping[str, str], timeout: float) -> Answer:
    from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType  # takes a while, and few processes send

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asset = AppriseAsset(async_mode=False, storage_mode="memory", app_id="Nightdesk")
    service = Apprise.instantiate(address, asset=asset)
    if service is None:
        return Answer(error="Apprise cannot read this address; its documentation lists the forms")
    by = Apprise(asset=asset)
    by.add(service)
    kind = NotifyType.WARNING if told["kind"] == "alert" else NotifyType.INFO
    text = NotifyFormat.TEXT
    taken = by.notify(body=told["body"], title=told["title"], notify_type=kind, body_format=text, timeout=timeout)
    name = str(service.service_name)
    return Answer({"accepted_by": name}) if taken else Answer(error=f"{name} did not take it")


def _is_file(address: str) -> bool:
    return address.startswith(_FILE) or ("://" not in address and not address.startswith(_VARIABLE))


def _write(home: Path, address: str, told: Mapping[str, str]) -> Answer:
    """Whoever reads the file finds the old message in it or the new one, and never half of it."""
    path = unquote(urlsplit(address).path) if address.startswith(_FILE) else address
    file = home / path
    aside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with aside.open("w", encoding="utf-8") as out:
            out.write(f"{told['title']}\n\n{told['body']}\n")
            out.flush()
            os.fsync(out.fileno())
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    return Answer({"written_to": file.name})
