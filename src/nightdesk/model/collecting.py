"""Batches on their way back: asked after, read as a stream, and written to the calls that wait for them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import sqlalchemy as sa

from nightdesk.failpoints import failpoint
from nightdesk.guard import breakers, rates
from nightdesk.guard.turns import take_turn
from nightdesk.model.arriving import arrive, forsake
from nightdesk.model.giving_back import Wake
from nightdesk.model.holding import Hold, HoldLost, claim, is_sure, kept
from nightdesk.model.posting import give_back_members, rejoin_members
from nightdesk.model.providers.base import BatchClient, ItemResult, Progress, Refused, TryLater
from nightdesk.model.room import ModelRoom
from nightdesk.model.waves import queue_limits
from nightdesk.store import calls
from nightdesk.watch.logs import get_logger

_log = get_logger("nightdesk.batches")

_RESULTS_PER_WRITE = 200
# A result that is missing may only have been cut off: so often the results are read before it counts as not there.
_READS = 3
# After this time a batch that cannot be asked after, or whose results cannot be read, is given up.
_GONE_AFTER = timedelta(hours=50)
_RESULTS_GONE_AFTER = timedelta(hours=1)
_LONGEST_PAUSE_SECONDS = 900.0
_NO_ROOM_PAUSE_SECONDS = 60.0
_NO_KEY_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Collecting:
    """Brings back the batches that one worker holds. Blocking: for a thread."""

    room: ModelRoom
    holder: str
    wake: Wake

    def collect_due(self) -> int:
        """Look at every batch that is due; the answer is how many were."""
        count = 0
        while (hold := claim(self.room, self.holder, ("open", "cancelling"))) is not None:
            count += 1
            try:
                with kept(hold):
                    self._visit(hold)
            except HoldLost:
                _log.warning("A batch was taken over by another worker.", action="collect", batch=hold.batch["id"])
        return count

    def _visit(self, hold: Hold) -> None:
        batch = hold.batch
        client = self.room.batches(batch)
        try:
            if client is None:
                raise TryLater("No worker has the key that this batch was sent with.", _NO_KEY_PAUSE_SECONDS)
            if batch["status"] == "cancelling" and is_sure(batch["outcome"]):
                client.cancel(batch["provider_id"])
            self._go_on(hold, client, client.progress(batch["provider_id"]))
        except (TryLater, Refused) as error:
            self._cannot(hold, error)

    def _go_on(self, hold: Hold, client: BatchClient, progress: Progress) -> None:
        failpoint("batch-polled", hold.batch["provider"])
        if progress.state == "open":
            self._still_open(hold)
        elif progress.state == "failed":
            self._failed(hold, progress)
        elif self._is_ours(hold, client):
            self._read(hold, client)

    def _still_open(self, hold: Hold) -> None:
        """An estimate that has passed is put off by a quarter of the time that it has taken so far."""
        now, batch = self._now(), hold.batch
        expected = batch["expected_at"]
        if expected is None or expected <= now:
            expected = now + (now - batch["submitted_at"]) / 4
        outcome = {name: told for name, told in (batch["outcome"] or {}).items() if name != "since"}
        hold.release(self._next_poll(), polls=0, expected_at=expected, outcome=outcome or None)

    def _failed(self, hold: Hold, progress: Progress) -> None:
        """Nothing in it was run. For want of room it is sent again later; else each task chooses anew."""
        db, batch, why = self.room.house.db, hold.batch, progress.error or "the provider says that it failed"
        with db.write() as conn:
            take_turn(db, conn)
            outcome = {"no_room": True} if progress.no_room else batch["outcome"]
            if not hold.finish(conn, "failed", error=why, outcome=outcome):
                raise HoldLost
            if progress.no_room:
                rejoin_members(self.room, conn, batch, why, _NO_ROOM_PAUSE_SECONDS)
                return
            rules = self.room.house.settings.breakers
            breakers.failed(db, conn, self._now(), batch["provider"], batch["model"], "batch", why, rules)
            give_back_members(self.room, conn, batch, why, self.wake)

    def _is_ours(self, hold: Hold, client: BatchClient) -> bool:
        """A batch that was adopted by its size and time alone is known by its results; if it is another's, the search
        goes on."""
        batch = hold.batch
        outcome = batch["outcome"] or {}
        if is_sure(outcome):
            return True
        held = client.holds(batch["provider_id"], self._members(batch["id"]))
        if held is None:
            hold.release(self._next_poll())
        elif held:
            hold.mark(outcome=outcome | {"sure": True})
        else:
            others = [*outcome.get("not", ()), batch["provider_id"]]
            hold.release(self._now(), status="intent", provider_id=None, polls=0, outcome={"not": others})
        return bool(held)

    def _members(self, batch_id: str) -> frozenset[str]:
        with self.room.house.db.read() as conn:
            return frozenset(conn.scalars(sa.select(calls.c.id).where(calls.c.batch_id == batch_id)))

    def _read(self, hold: Hold, client: BatchClient) -> None:
        tally: Counter[str] = Counter()
        hold.mark(outcome=(hold.batch["outcome"] or {}) | {"ended": True})
        for results in _groups(client.results(hold.batch["provider_id"]), _RESULTS_PER_WRITE):
            tally += self._store(hold, results)
            failpoint("batch-results", hold.batch["provider"])
        self._close(hold, tally)
        failpoint("batch-closed", hold.batch["provider"])

    def _store(self, hold: Hold, results: list[ItemResult]) -> Counter[str]:
        db = self.room.house.db
        with db.write() as conn:
            take_turn(db, conn)
            hold.keep(conn)
            return arrive(self.room, conn, hold.batch, results, self.wake)

    def _close(self, hold: Hold, tally: Counter[str]) -> None:
        db, batch, now = self.room.house.db, hold.batch, self._now()
        missing, outcome = self._missing(batch["id"]), batch["outcome"] or {}
        outcome |= {"reads": outcome.get("reads", 0) + 1}
        if missing and outcome["reads"] < _READS:
            hold.release(self._next_poll(), outcome=outcome, error=f"{missing} results are missing so far")
            return
        # What went wrong on the way is over; only what was called back keeps the reason.
        error = batch["error"] if batch["status"] == "cancelling" else None
        with db.write() as conn:
            take_turn(db, conn)
            outcome |= dict(tally) | {"missing": missing}
            if not hold.finish(conn, "ended", outcome=outcome, error=error):
                raise HoldLost
            breakers.succeeded(db, conn, now, batch["provider"], batch["model"], "batch")
            give_back_members(self.room, conn, batch, "it is missing from the results of its batch", self.wake)
        _log.info("A wave is back.", action="wave", provider=batch["provider"], batch=batch["id"], **outcome)

    def _missing(self, batch_id: str) -> int:
        out = (calls.c.batch_id == batch_id) & (calls.c.status == "sent")
        with self.room.house.db.read() as conn:
            return conn.execute(sa.select(sa.func.count()).select_from(calls).where(out)).scalar_one()

    def _cannot(self, hold: Hold, error: TryLater | Refused) -> None:
        """It cannot be asked after, or read, now. A 404 is not the truth for long; in the end it is."""
        batch, now = hold.batch, self._now()
        outcome = (batch["outcome"] or {}) | {"since": (batch["outcome"] or {}).get("since", now.isoformat())}
        waited = now - datetime.fromisoformat(outcome["since"])
        if waited >= _RESULTS_GONE_AFTER and now - batch["submitted_at"] >= self._patience(batch):
            self._give_up(hold, str(error))
            return
        told = error.retry_after if isinstance(error, TryLater) else None
        pause = told or min(self._poll_seconds() * 2 ** min(batch["polls"], 10), _LONGEST_PAUSE_SECONDS)
        hold.release(self._later(pause), polls=batch["polls"] + 1, error=str(error), outcome=outcome)

    def _patience(self, batch: Any) -> timedelta:
        """An hour is enough for results that were there once and can no longer be read."""
        return _RESULTS_GONE_AFTER if (batch["outcome"] or {}).get("ended") else _GONE_AFTER

    def _give_up(self, hold: Hold, why: str) -> None:
        """It may be billed, so nothing in it is asked again without a person."""
        db, batch = self.room.house.db, hold.batch
        with db.write() as conn:
            take_turn(db, conn)
            if not hold.finish(conn, "failed", error=why):
                raise HoldLost
            rates.queue_down(db, conn, queue_limits(self.room, batch), batch["input_tokens"])
            count = forsake(self.room, conn, batch, why, self.wake)
        _log.error("A batch was given up.", action="wave", batch=batch["id"], count=count, error=why)

    def _now(self) -> datetime:
        return self.room.house.clock.now()

    def _later(self, seconds: float) -> datetime:
        return self._now() + timedelta(seconds=seconds)

    def _poll_seconds(self) -> float:
        return self.room.house.settings.waves.poll_seconds

    def _next_poll(self) -> datetime:
        return self._later(self._poll_seconds())


def _groups(results: Iterable[ItemResult], size: int) -> Iterator[list[ItemResult]]:
    stream = iter(results)
    while group := list(islice(stream, size)):
        yield group
