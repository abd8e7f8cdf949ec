"""Batches on their way out: the intent is a row already; here it is created at the provider, or found there."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.guard import breakers, rates
from nightdesk.guard.turns import take_turn
from nightdesk.model.giving_back import Wake, give_back, rejoin
from nightdesk.model.holding import Hold, HoldLost, claim, is_sure, kept
from nightdesk.model.providers.base import BatchClient, Item, Parcel, Refused, TryLater, Unknown
from nightdesk.model.room import ModelRoom
from nightdesk.model.waves import queue_limits
from nightdesk.store import batches, calls
from nightdesk.watch.events import record
from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.batches")

_ITEMS_PER_READ = 500
# A batch that may have been created can be missing from the provider's list for a while.
_LOOKS_BEFORE_SENDING_AGAIN = 2
# After so many times each task chooses anew: too few and too far apart to open the breaker, they would go on all night.
_MOST_TRIES = 3
_NO_KEY_FOR = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Posting:
    """Sends the batches that one worker holds. Blocking: for a thread."""

    room: ModelRoom
    holder: str
    wake: Wake

    def post_due(self) -> int:
        """Send every batch that is due; the answer is how many were looked at."""
        count = 0
        while (hold := claim(self.room, self.holder, ("intent",))) is not None:
            count += 1
            try:
                with kept(hold):
                    self._post(hold)
            except HoldLost:
                _log.warning("A batch was taken over by another worker.", action="post", batch=hold.batch["id"])
        return count

    def _post(self, hold: Hold) -> None:
        batch = hold.batch
        try:
            client = self.room.batches(batch)
        except Refused as error:
            self._refused(hold, error)
            return
        if client is None:
            self._no_key(hold)
            return
        try:
            found = self._look(hold, client)
        except _NotYet:
            return
        except (TryLater, Refused) as error:  # it may be there, so that nothing is sent or given back
            hold.release(self._later(60), error=str(error))
            return
        self._send(hold, client) if found is None else self._opened(hold, found)

    def _no_key(self, hold: Hold) -> None:
        """Another worker may have it. If none has, the tasks bring it along when they ask anew."""
        why = "no worker has the key that this batch is to be sent with"
        waited = self.room.house.clock.now() - hold.batch["created_at"]
        if waited >= _NO_KEY_FOR and hold.batch["attempt"] == 0:
            self._undo(hold, why)
        else:
            hold.release(self._later(60), error=why)

    def _look(self, hold: Hold, client: BatchClient) -> str | None:
        """The provider's id if an earlier try has created the batch; None if this is the first, or it did not."""
        batch = hold.batch
        if batch["attempt"] == 0:
            return None
        found = client.find(_parcel(batch, iter(())), self._known(batch))
        if found is not None:
            self._adopted(hold, found.provider_id, sure=found.sure)
            return found.provider_id
        looks = batch["polls"] + (0 if self._may_be_taken(batch) else 1)
        if looks < _LOOKS_BEFORE_SENDING_AGAIN:
            pause = self.room.house.settings.waves.poll_seconds
            hold.release(self._later(pause), error=batch["error"], polls=looks)
            raise _NotYet
        if batch["attempt"] >= _MOST_TRIES:
            self._undo(hold, f"it was tried {batch['attempt']} times and is not there; the last time {batch['error']}")
            raise _NotYet
        return None

    def _send(self, hold: Hold, client: BatchClient) -> None:
        try:
            provider_id = self._create(hold, client)
        except TryLater as error:
            self._not_now(hold, error)
        except Unknown as error:
            self._fail(hold, str(error))
            hold.release(self._later(1), error=f"it may have been created: {error}")
        except Refused as error:
            self._refused(hold, error)
        else:
            failpoint("batch-created", hold.batch["provider"])
            self._opened(hold, provider_id)
            failpoint("batch-saved", hold.batch["provider"])

    def _create(self, hold: Hold, client: BatchClient) -> str:
        hold.mark(attempt=hold.batch["attempt"] + 1, polls=0)
        failpoint("batch-intended", hold.batch["provider"])
        return client.create(_parcel(hold.batch, _items(self.room, hold.batch["id"])))

    def _known(self, batch: Any) -> frozenset[str]:
        """Ids at this provider that belong to other batches, and those that turned out not to be this one."""
        query = sa.select(batches.c.provider_id).where(
            batches.c.provider == batch["provider"], batches.c.provider_id.is_not(None)
        )
        with self.room.house.db.read() as conn:
            return frozenset(conn.execute(query).scalars()) | frozenset((batch["outcome"] or {}).get("not", ()))

    def _may_be_taken(self, batch: Any) -> bool:
        """Whether one as large was adopted for another of our batches, whose results will tell if it is this one's."""
        b = batches.c
        others = sa.select(b.outcome).where(
            b.provider == batch["provider"],
            b.base_url == batch["base_url"],
            b.members == batch["members"],
            b.status.in_(("open", "cancelling")),
        )
        with self.room.house.db.read() as conn:
            return not all(is_sure(outcome) for outcome in conn.scalars(others))

    def _adopted(self, hold: Hold, provider_id: str, *, sure: bool) -> None:
        hold.mark(outcome=(hold.batch["outcome"] or {}) | {"sure": sure})
        _log.warning("A batch of an interrupted try was found.", action="adopt", batch=hold.batch["id"], sure=sure)
        with self.room.house.db.write() as conn:
            detail = {"batch": hold.batch["id"], "provider_id": provider_id, "sure": sure}
            cause = "a batch that an interrupted try has left at the provider was adopted"
            record(conn, self.room.house.clock.now(), "batch", cause=cause, actor=self.holder, detail=detail)
        failpoint("batch-adopted", hold.batch["provider"])

    def _opened(self, hold: Hold, provider_id: str) -> None:
        now, db, batch = self.room.house.clock.now(), self.room.house.db, hold.batch
        pause = self.room.house.settings.waves.poll_seconds
        opened = {"status": "open", "provider_id": provider_id, "submitted_at": now, "error": None, "polls": 0}
        hold.release(now + timedelta(seconds=pause), **opened)
        with db.write() as conn:
            breakers.succeeded(db, conn, now, batch["provider"], batch["model"], "batch")
        _log.info("A wave has left.", action="wave", provider=batch["provider"], count=batch["members"])

    def _not_now(self, hold: Hold, error: TryLater) -> None:
        """Nothing was created. If that opens the lane's breaker, each task chooses anew; else it is tried again."""
        if self._fail(hold, str(error)):
            self._undo(hold, f"the breaker of the batch lane is open: {error}", counts=False)
        else:
            hold.release(self._later(error.retry_after or 10), error=str(error), attempt=0)

    def _fail(self, hold: Hold, why: str) -> bool:
        """Tell the breaker; whether it is open now."""
        db, batch, now = self.room.house.db, hold.batch, self.room.house.clock.now()
        rules = self.room.house.settings.breakers
        with db.write() as conn:
            breakers.failed(db, conn, now, batch["provider"], batch["model"], "batch", why, rules)
            return "batch" in breakers.shut_lanes(conn, now, batch["provider"], batch["model"])

    def _undo(self, hold: Hold, why: str, *, counts: bool = True) -> None:
        with self.room.house.db.write() as conn:
            take_turn(self.room.house.db, conn)
            if hold.finish(conn, "failed", error=why, attempt=0):
                give_back_members(self.room, conn, hold.batch, why, self.wake, counts=counts)

    def _refused(self, hold: Hold, error: Refused) -> None:
        """Nothing was created. For want of credentials or credit the lane is latched; each task then chooses anew."""
        db, batch, now = self.room.house.db, hold.batch, self.room.house.clock.now()
        if error.trouble in ("credentials", "spend"):
            with db.write() as conn:
                breakers.latch(db, conn, now, batch["provider"], batch["model"], "batch", str(error))
        self._undo(hold, str(error))

    def _later(self, seconds: float) -> datetime:
        return self.room.house.clock.now() + timedelta(seconds=seconds)


class _NotYet(Exception):
    """It is not to be sent now: it may still turn up, or it was given up."""


def give_back_members(
    room: ModelRoom, conn: sa.Connection, batch: Any, why: str, wake: Wake, *, counts: bool = True
) -> None:
    """Give back what of the batch is still out. If it does not count, they were never in it."""
    rates.queue_down(room.house.db, conn, queue_limits(room, batch), batch["input_tokens"])
    out = (calls.c.batch_id == batch["id"]) & (calls.c.status == "sent")
    give_back(room, conn, out, why, wake, counts=counts)


def rejoin_members(room: ModelRoom, conn: sa.Connection, batch: Any, why: str, pause_seconds: float) -> None:
    rates.queue_down(room.house.db, conn, queue_limits(room, batch), batch["input_tokens"])
    out = (calls.c.batch_id == batch["id"]) & (calls.c.status == "sent")
    rejoin(conn, room.house.clock.now(), out, why, pause_seconds)


def _parcel(batch: Any, items: Iterator[Item]) -> Parcel:
    return Parcel(
        id=batch["id"],
        endpoint=batch["endpoint"],
        model=batch["model"],
        headers=batch["headers"],
        created_at=batch["created_at"],
        items=items,
        count=batch["members"],
    )


def _items(room: ModelRoom, batch_id: str) -> Iterator[Item]:
    """The batch's requests, a few hundred at a time, so that memory does not grow with the wave."""
    last = ""
    while True:
        query = (
            sa.select(calls.c.id, calls.c.request)
            .where(calls.c.batch_id == batch_id, calls.c.status == "sent", calls.c.id > last)
            .order_by(calls.c.id)
            .limit(_ITEMS_PER_READ)
        )
        with room.house.db.read() as conn:
            rows = conn.execute(query).all()
        for row in rows:
            yield Item(row.id, row.request)
        if not rows:
            return
        last = rows[-1].id
