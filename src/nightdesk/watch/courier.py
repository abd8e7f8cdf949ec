"""The courier: notices are put in an outbox with the change they tell of, and delivered until acknowledged."""

import asyncio
import base64
import os
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nightdesk.canonical import Json, canonical, digest, jsonable
from nightdesk.clock import Clock
from nightdesk.errors import NightdeskError
from nightdesk.store import Database, notices, upsert

if TYPE_CHECKING:  # importing httpx takes a tenth of a second, which those who only post need not pay
    import httpx
    from standardwebhooks import Webhook

CALLBACK = "callback"
SECRET_VARIABLE = "NIGHTDESK_CALLBACK_SECRET"  # pragma: allowlist secret
SECRET_FILE = "callback.secret"  # pragma: allowlist secret

_FIRST_PAUSE_SECONDS = 5.0
# A courier that claimed a notice and vanished is given this much longer than its answer could take.
_CLAIM_SPARE_SECONDS = 30.0
_GONE = 410


def post(conn: sa.Connection, at: datetime, kind: str, target: str, payload: Json, task_id: str | None = None) -> str:
    """Put a notice in the outbox, in the transaction of what it tells of; the very same again does nothing."""
    payload = jsonable(payload)
    notice_id = "notice_" + digest(kind, task_id or "", target, canonical(payload))[:32]
    row = {"id": notice_id, "kind": kind, "task_id": task_id, "target": target, "payload": payload}
    insert = upsert(conn.dialect.name, notices).values(**row, created_at=at, next_at=at)
    conn.execute(insert.on_conflict_do_nothing())
    return notice_id


@dataclass(frozen=True)
class Notice:
    id: str
    target: str
    body: str
    attempts: int


@dataclass(frozen=True)
class Answer:
    """What came of one try: the proof that nothing more is to be done, or the error that keeps us from it."""

    proof: dict[str, Json] | None = None
    error: str = ""


def deliver_due(
    db: Database, clock: Clock, secret: str, *, timeout: float, longest_pause: float, limit: int = 50
) -> int:
    """Send the callbacks that are due, all at once; say how many were tried.

    Each is signed as Standard Webhooks say. A 2xx acknowledges it and 410 refuses it for good; after anything
    else it is tried again, after pauses that double up to `longest_pause` seconds. Delivery is at least once:
    the receiver tells repeats by `webhook-id`. Call it from a thread, not from async code.
    """
    due = claim(db, clock.now(), timeout + _CLAIM_SPARE_SECONDS, limit, CALLBACK)
    if due:
        settle(db, due, asyncio.run(_send_all(due, secret, clock.now(), timeout)), clock.now(), longest_pause)
    return len(due)


def callback_secret(home: Path) -> str:
    """The secret that callbacks are signed with: from the environment, else from a file made at first use."""
    stated = os.environ.get(SECRET_VARIABLE)
    if stated:
        return _checked(stated, SECRET_VARIABLE)
    file = home / SECRET_FILE
    if not file.exists():
        _make_secret(file)
    return _checked(file.read_text(encoding="ascii", errors="replace").strip(), SECRET_FILE)


def claim(db: Database, now: datetime, hold_seconds: float, limit: int, kind: str) -> list[Notice]:
    """Take due notices of a kind off the table for a while, so that no other courier sends them meanwhile."""
    columns = notices.c.id, notices.c.target, notices.c.payload, notices.c.attempts
    is_due = (notices.c.kind == kind) & notices.c.delivered_at.is_(None) & (notices.c.next_at <= now)
    query = sa.select(*columns).where(is_due).order_by(notices.c.next_at).limit(limit)
    with db.write() as conn:
        rows = conn.execute(query.with_for_update(skip_locked=True)).all()
        claimed = notices.c.id.in_([row.id for row in rows])
        hold = now + timedelta(seconds=hold_seconds)
        if rows:
            conn.execute(notices.update().where(claimed).values(attempts=notices.c.attempts + 1, next_at=hold))
    return [Notice(row.id, row.target, canonical(row.payload), row.attempts + 1) for row in rows]


def settle(db: Database, due: Sequence[Notice], answers: Sequence[Answer], now: datetime, longest_pause: float) -> None:
    """Write down what came of each."""
    with db.write() as conn:
        for notice, answer in zip(due, answers, strict=True):
            outcome = _outcome(answer, notice.attempts, now, longest_pause)
            conn.execute(notices.update().where(notices.c.id == notice.id).values(**outcome))


async def _send_all(due: list[Notice], secret: str, at: datetime, seconds: float) -> list[Answer]:
    import httpx
    from standardwebhooks import Webhook

    signer = Webhook(secret)
    async with httpx.AsyncClient(timeout=seconds, trust_env=False, follow_redirects=False) as client:
        return await asyncio.gather(*(_send(client, notice, signer, at, seconds) for notice in due))


async def _send(client: "httpx.AsyncClient", notice: Notice, signer: "Webhook", at: datetime, seconds: float) -> Answer:
    headers = {
        "content-type": "application/json",
        "webhook-id": notice.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signer.sign(notice.id, at, notice.body),
    }
    try:
        # The limit is on the whole exchange: httpx's own starts again with each byte. The body is not read.
        async with (
            asyncio.timeout(seconds),
            client.stream("POST", notice.target, content=notice.body, headers=headers) as response,
        ):
            return _read(response.status_code)
    except Exception as error:  # a hostile address or receiver must not keep the others from their notices
        return Answer(error=f"{type(error).__name__}: {error}"[:500])


def _read(status: int) -> Answer:
    if status == _GONE:
        return Answer({"status": status, "outcome": "refused for good"})
    return Answer({"status": status}) if 200 <= status < 300 else Answer(error=f"the receiver answered {status}")


def _outcome(answer: Answer, attempts: int, now: datetime, longest_pause: float) -> dict[str, Json]:
    if answer.proof is not None:
        proof = answer.proof | {"at": now.isoformat()}
        return {"delivered_at": now, "next_at": None, "proof": proof, "last_error": None}
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 30), longest_pause)
    return {"next_at": now + timedelta(seconds=pause * random.uniform(0.5, 1)), "last_error": answer.error}


def _make_secret(file: Path) -> None:
    """Written aside and then linked, so that of two processes one wins and neither reads half a secret."""
    aside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode("ascii") + "\n")
        os.link(aside, file)
    except FileExistsError:
        return
    finally:
        aside.unlink()


def _checked(secret: str, source: str) -> str:
    from standardwebhooks import Webhook

    try:
        Webhook(secret)
    except Exception:
        raise NightdeskError(
            f"The callback secret in {source} is not whsec_ and base64.", f"Mend it, or remove {SECRET_FILE}."
        ) from None
    return secret
