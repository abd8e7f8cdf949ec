"""What else a person is asked: a task's own question (`desk.ask`), and a budget that is used up.

They are on the desk by names of their own, `q.TASK.STEP` and `b.SCOPE.NAME.DAY` (with `~20` for a space and so on for
whatever is no letter, digit, dot or hyphen), and are decided by the same verbs as drafts: approve takes what is
proposed, edit says another thing, and a budget may be refused. What they say takes effect at once, so there is nothing
to undo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote, unquote

import sqlalchemy as sa

from nightdesk.canonical import Json, jsonable
from nightdesk.errors import Invalid, NotFound
from nightdesk.guard.caps import Budget, raise_in, read_budget, refuse_in
from nightdesk.guard.purses import MICROS, Purse, to_micros
from nightdesk.house import House
from nightdesk.review.asked import Asked, Decided, Outcome
from nightdesk.review.laying import hash_of
from nightdesk.store import budgets, decisions, runs, tasks
from nightdesk.work.states import Task, lock_task
from nightdesk.work.tasks import answer_in

_CENT = MICROS // 100
_LONGEST = 4000
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Question:
    """A row of `runs` that waits for a person, and its task."""

    task: Task
    run: Row

    @property
    def id(self) -> str:
        return f"q.{self.task['id']}.{_in_address(self.run['step'])}"

    @property
    def payload(self) -> dict[str, Json]:
        return {name: self.run["input"].get(name) for name in ("question", "choices", "default")}

    @property
    def until(self) -> datetime | None:
        stated = self.run["input"].get("until")
        return datetime.fromisoformat(stated) if stated else None

    @property
    def hash(self) -> str:
        return hash_of([self.payload, *(self.run[name] for name in ("version", "step", "occurrence"))])


@dataclass(frozen=True)
class Want:
    """A budget for which a person is asked."""

    budget: Budget

    @property
    def id(self) -> str:
        return f"b.{self.budget.scope}.{_in_address(self.budget.name)}.{self.budget.day}"

    @property
    def suggested_micros(self) -> int:
        """A quarter more, in whole cents."""
        return max(1, -(-(self.budget.limit_micros or 0) // (4 * _CENT))) * _CENT

    @property
    def payload(self) -> dict[str, Json]:
        names = ("limit", "raised", "spent", "reserved")
        money = {f"{name}_usd": _usd(getattr(self.budget, f"{name}_micros") or 0) for name in names}
        where = {name: getattr(self.budget, name) for name in ("scope", "name", "day")}
        return where | money | {"suggested_usd": _usd(self.suggested_micros)}

    @property
    def hash(self) -> str:
        """Of what is asked for; that more was spent in the meantime changes nothing about that."""
        lasting = {name: value for name, value in self.payload.items() if name not in ("spent_usd", "reserved_usd")}
        return hash_of([lasting, jsonable(self.budget.asked_at)])


def waiting_questions(which: sa.ColumnElement[bool] | None = None) -> sa.Select[Any]:
    """Rows of `runs` in which tasks wait for a person's choice."""
    asks = sa.cast(runs.c.input, sa.Text).contains('"choices":')
    here = (runs.c.task_id == tasks.c.id) & (runs.c.version == tasks.c.version)
    query = sa.select(runs).join(tasks, here)
    return query.where(
        tasks.c.state == "waiting", runs.c.status == "waiting", asks, *([] if which is None else [which])
    )


def find_question(conn: sa.Connection, item: str, tenant: str | None = None, *, lock: bool = False) -> Question:
    """NotFound: the task is not there, or asks no such thing (any more)."""
    task_id, _, step = item.removeprefix("q.").partition(".")
    task = lock_task(conn, task_id) if lock else _task(conn, task_id)
    here = (runs.c.task_id == task_id) & (runs.c.step == _from_address(step))
    rows = conn.execute(waiting_questions(here).order_by(runs.c.occurrence)).mappings().all() if task else []
    if task is None or not rows or tenant not in (None, task["tenant"]):
        raise _unknown(item)
    return Question(task, rows[0])


def find_want(conn: sa.Connection, item: str, tenant: str | None = None) -> Want:
    """NotFound: nobody is asked about such a budget. It is none of a single tenant's business."""
    scope, _, rest = item.removeprefix("b.").partition(".")
    name, _, day = rest.rpartition(".")
    budget = read_budget(conn, scope, _from_address(name), day) if tenant is None else None
    if budget is None or budget.asked_at is None:
        raise _unknown(item)
    return Want(budget)


def wants(conn: sa.Connection) -> list[Want]:
    """All budgets that a person is asked about, unless what they were for is over."""
    b = budgets.c
    ended = sa.exists(sa.select(tasks.c.id).where(tasks.c.id == b.name, tasks.c.ended_at.is_not(None)))
    asked = sa.select(*(b[name] for name in Budget.__dataclass_fields__)).where(b.asked_at.is_not(None))
    query = asked.where((b.scope != "task") | ~ended).order_by(b.asked_at, b.scope, b.name)
    return [Want(Budget(*row)) for row in conn.execute(query)]


def decide_question(house: House, conn: sa.Connection, asked: Asked) -> Outcome:
    asked.actor.require("review")
    said = _decided(conn, asked)
    try:
        question = find_question(conn, asked.item, asked.tenant, lock=True)
    except NotFound:
        return _too_late(conn, asked, said, "question")
    if question.hash != asked.hash:
        return _too_late(conn, asked, said, "question", question.hash)
    choice = _choice(question, asked)
    answer_in(house, conn, question.task, question.run, choice, actor=asked.actor.name)
    task = {"task_id": question.task["id"], "version": question.task["version"]}
    return _note(house, conn, asked, said, "question", "answered", task, {"choice": choice})


def decide_budget(house: House, conn: sa.Connection, asked: Asked) -> Outcome:
    asked.actor.require("operate")
    house.db.lock(conn, f"nightdesk-{asked.item}")
    said = _decided(conn, asked)
    try:
        want = find_want(conn, asked.item, asked.tenant)
    except NotFound:
        return _too_late(conn, asked, said, "budget")
    if want.hash != asked.hash:
        return _too_late(conn, asked, said, "budget", want.hash)
    now, budget = house.clock.now(), want.budget
    why = asked.reason or asked.note or f"decided on the desk by {asked.actor.name}"
    if asked.verb == "reject":
        refuse_in(conn, now, budget, why=why, actor=asked.actor.name)
        return _note(house, conn, asked, said, "budget", "refused", {}, None)
    more = _dollars(want, asked)
    purse = Purse(budget.scope, budget.name, budget.day, budget.limit_micros)  # type: ignore[arg-type] # as stored
    raise_in(house.db, conn, now, purse, more, why=why, actor=asked.actor.name)
    return _note(house, conn, asked, said, "budget", "raised", {}, {"dollars": str(more)})


def _choice(question: Question, asked: Asked) -> str:
    default = question.payload["default"]
    if asked.verb == "approve" and default is not None:
        return str(default)
    choice = (asked.edits or {}).get("choice")
    if asked.verb == "edit" and isinstance(choice, str):
        return choice
    known = ", ".join(question.payload["choices"])
    raise Invalid(
        "That does not answer the question",
        [("verb", 'is to be edit, with edits of {"choice": "…"}' + (", or approve" if default is not None else ""))],
        f"Choose one of {known}.",
    )


def _dollars(want: Want, asked: Asked) -> Decimal:
    if asked.verb == "approve":
        return Decimal(want.suggested_micros).scaleb(-6)
    try:
        stated = (asked.edits or {}).get("dollars") if asked.verb == "edit" else None
        if isinstance(stated, str | int | float) and not isinstance(stated, bool) and to_micros(Decimal(str(stated))):
            return Decimal(str(stated))
    except (InvalidOperation, ValueError):
        pass
    fault = ("verb", 'is to be approve, reject, or edit with edits of {"dollars": "5.00"}')
    raise Invalid("That does not say how much more", [fault], "Say how much more it may be.")


def _decided(conn: sa.Connection, asked: Asked) -> Sequence[Row]:
    query = sa.select(decisions).where(decisions.c.item == asked.item).order_by(decisions.c.id)
    return conn.execute(query).mappings().all()


def _too_late(conn: sa.Connection, asked: Asked, said: Sequence[Row], kind: str, hash_: str | None = None) -> Outcome:
    """What stands: told to whoever has said it, and said to be in the way of anybody else."""
    about = next((row for row in reversed(said) if row["hash"] == asked.hash), None)
    if about is not None and not _is_seen(conn, about, asked.tenant):
        about = None
    if about is None and hash_ is None:
        raise _unknown(asked.item)
    outcome = _outcome(asked.item, kind, about, hash_ or asked.hash)
    own = about is not None and (about["actor"], about["verb"]) == (asked.actor.name, asked.verb)
    if own and about is not None and about["edits"] == (dict(asked.edits) if asked.edits else None):
        return outcome
    raise Decided(outcome)


def _is_seen(conn: sa.Connection, row: Row, tenant: str | None) -> bool:
    if tenant is None:
        return True
    task = _task(conn, row["task_id"]) if row["task_id"] else None
    return task is not None and task["tenant"] == tenant


def _note(
    house: House, conn: sa.Connection, asked: Asked, said: Sequence[Row], kind: str, state: str,
    task: dict[str, Json], diff: Json,
) -> Outcome:  # fmt: skip
    actor = asked.actor
    row = {
        "id": f"{asked.item}#{len(said) + 1:04}",
        "item": asked.item,
        "task_id": None,
        "version": None,
        **task,
        "hash": asked.hash,
        "verb": asked.verb,
        "final": False,
        "actor": actor.name,
        "channel": actor.channel,
        "assurance": actor.assurance,
        "reason": asked.reason,
        "note": asked.note,
        "edits": dict(asked.edits) if asked.edits else None,
        "diff": {"state": state, "said": diff},
        "opened_at": asked.opened_at,
        "decided_at": house.clock.now(),
    }
    conn.execute(decisions.insert(), row)
    return _outcome(asked.item, kind, row, asked.hash)


def _outcome(item: str, kind: str, row: Row | None, hash_: str) -> Outcome:
    if row is None:
        return Outcome(id=item, kind=kind, state="asked", hash=hash_)
    kept = {name: row[name] for name in ("version", "verb", "actor", "channel", "reason", "note")}
    told = {"state": row["diff"]["state"], "diff": row["diff"]["said"], "at": row["decided_at"]}
    return Outcome(id=item, kind=kind, hash=row["hash"], final=True, **kept, **told)


def _task(conn: sa.Connection, task_id: str) -> Task | None:
    return conn.execute(sa.select(tasks).where(tasks.c.id == task_id)).mappings().one_or_none()


def _in_address(name: str) -> str:
    """The name in characters that mean nothing in any address, so that none of them is ever coded there again."""
    return quote(name, safe="").replace("~", "%7E").replace("%", "~")


def _from_address(text: str) -> str:
    return unquote(text.replace("~", "%")).replace("\0", "\ufffd")


def _usd(micros: int) -> str:
    return format(Decimal(micros).scaleb(-6).normalize(), "f")


def _unknown(item: str) -> NotFound:
    return NotFound(f"There is nothing on the desk by the name of {item}.", "See: nightdesk review list")
