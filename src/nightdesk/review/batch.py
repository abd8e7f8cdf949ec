"""Approving what is left of a lot, once its sample was read."""

from nightdesk.errors import Conflict, Forbidden
from nightdesk.house import House
from nightdesk.review.asked import Actor, Asked
from nightdesk.review.effects import Case, Stage, approve, leave_approved
from nightdesk.review.items import read_item
from nightdesk.review.lots import Lot, read_lot
from nightdesk.review.safety import require_allowed
from nightdesk.store import lots
from nightdesk.watch.events import record

# So many in one transaction: a moment's work, as others wait for it.
_CHUNK = 50


def approve_rest(house: House, lot: str, actor: Actor, stage: Stage = leave_approved) -> list[str]:
    """Approve each draft that the sample speaks for; the answer is their ids.

    Conflict: the sample is not read yet, or one of the lot was found bad, which ends it for good. What somebody has
    decided in the meantime stays as it is.
    """
    done: list[str] = []
    while not _is_through(house, lot, actor, stage, done):
        pass
    return done


def _is_through(house: House, lot: str, actor: Actor, stage: Stage, done: list[str]) -> bool:
    with house.db.write() as conn:
        here = read_lot(conn, lot)
        _require_read(here, actor)
        now = house.clock.now()
        for task_id in here.rest[:_CHUNK]:
            item = read_item(conn, task_id, lock=True)
            reason = f"with a lot of {here.items}, of which {len(here.sample)} were read"
            asked = Asked(task_id, "approve", item.hash, actor, reason=reason)
            require_allowed(asked, item.review["risk"])
            if item.is_open and item.hash == item.review["hash"]:
                approve(Case(house, conn, asked, item, now, stage))
                done.append(task_id)
        if len(here.rest) > _CHUNK:
            return False
        conn.execute(lots.update().where(lots.c.id == lot), {"state": "approved", "ended_at": now})
        cause = f"{len(done)} drafts of {here.playbook} were approved together"
        record(conn, now, "lot", cause=cause, actor=actor.name, state="approved", detail={"lot": lot})
        return True


def _require_read(lot: Lot, actor: Actor) -> None:
    if lot.actor != actor.name:
        raise Forbidden("review", f"{lot.actor} has drawn this lot and read its sample.", "Draw one of your own.")
    if lot.state == "cancelled":
        raise Conflict("A draft of this lot was found to be bad.", "Read the rest of it one by one.")
    if lot.state != "drawn":
        raise Conflict(f"This lot is {lot.state} already.", "Draw another.")
    if lot.to_read:
        raise Conflict(f"{len(lot.to_read)} of the sample of {len(lot.sample)} are not read yet.", "Read them first.")
