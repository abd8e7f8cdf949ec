"""The list of what lies on the desk: budgets and questions that hold work up, then drafts.

Drafts of a kind stand together, the most urgent kinds first; inside a kind the riskiest come first, then the most
doubtful, then the oldest. What was put behind the others today comes last, what was put off is not shown until its
moment has come.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightdesk.canonical import jsonable
from nightdesk.errors import NotFound
from nightdesk.house import House
from nightdesk.review.cards import question_card, want_card
from nightdesk.review.grounds import sentence_of
from nightdesk.review.minutes import ReviewMinutes
from nightdesk.review.moments import morning_of
from nightdesk.review.questions import Question, waiting_questions, wants
from nightdesk.store import decisions, drafts, reviews, runs, tasks
from nightdesk.store.desk import RISKS

KINDS = ("budget", "question", "draft")
_t, _r = tasks.c, reviews.c
_FIELDS = (
    "id", "kind", "playbook", "title", "tenant", "priority", "version", "hash", "sentence", "risk", "why_here",
    "passed", "laid_at", "deadline", "later_until", "leased_by",
)  # fmt: skip
Summary = dict[str, Any]
Key = list[Any]


@dataclass(frozen=True)
class Filters:
    """`failed`: only those whose gates found something, or only those without. `later`: what was put off, instead."""

    kind: str | None = None
    playbook: str | None = None
    risk: str | None = None
    tenant: str | None = None
    failed: bool | None = None
    later: bool = False


@dataclass(frozen=True)
class Counts:
    """Of the drafts: how many are left of how many today, the minutes that the rest takes, and how many are put off."""

    left: int
    total: int
    minutes_left: float
    later: int


@dataclass(frozen=True)
class Page:
    items: list[Summary]
    next_cursor: str | None
    counts: Counts


def list_items(house: House, filters: Filters, limit: int = 50, cursor: str | None = None) -> Page:
    """A page of the desk; the cursor is where the last page ended."""
    kind, key = _place(cursor)
    with house.db.read() as conn:
        found = list(_read(house, conn, filters, limit + 1, kind, key))
        counts = _counts(house, conn, filters)
    more = len(found) > limit
    last = found[limit - 1] if more else None
    return Page([item for _, item in found[:limit]], _cursor(last[1]["kind"], last[0]) if last else None, counts)


def _read(
    house: House, conn: sa.Connection, filters: Filters, limit: int, kind: str, key: Key | None
) -> Iterator[tuple[Key, Summary]]:
    """From the place on, kind after kind, up to the limit."""
    left = limit
    for name in KINDS[KINDS.index(kind) :]:
        if filters.kind in (None, name) and left > 0:
            found = _READ[name](house, conn, filters, left, key if name == kind else None)
            left -= len(found)
            yield from found


def _budgets(
    house: House, conn: sa.Connection, filters: Filters, limit: int, after: Key | None
) -> list[tuple[Key, Summary]]:
    if filters.tenant or filters.playbook or filters.risk or filters.later or filters.failed is not None:
        return []
    found = [(_keys(want.id), _summary(want_card(want))) for want in wants(conn)]
    found.sort(key=lambda pair: pair[0])
    return [pair for pair in found if after is None or pair[0] > after][:limit]


def _keys(*parts: Any) -> Key:
    return jsonable(list(parts))  # type: ignore[no-any-return]


def _questions(
    house: House, conn: sa.Connection, filters: Filters, limit: int, after: Key | None
) -> list[tuple[Key, Summary]]:
    if filters.risk or filters.later or filters.failed is not None:
        return []
    columns = (_t.priority, _t.created_at, _t.id, runs.c.position)
    query = waiting_questions(_of(filters)).order_by(*columns).limit(limit)
    if after is not None:
        query = query.where(sa.tuple_(*columns) > _values(columns, after))
    found = []
    for run in conn.execute(query).mappings():
        task = conn.execute(sa.select(tasks).where(_t.id == run["task_id"])).mappings().one()
        key = _keys(task["priority"], task["created_at"], task["id"], run["position"])
        found.append((key, _summary(question_card(house, Question(task, run)))))
    return found


def _drafts(
    house: House, conn: sa.Connection, filters: Filters, limit: int, after: Key | None
) -> list[tuple[Key, Summary]]:
    now = house.clock.now()
    rows = _ordered(house, filters, now).subquery()
    order = [rows.c[name] for name in _ORDER]
    query = sa.select(*order).order_by(*order).limit(limit)
    if after is not None:
        query = query.where(sa.tuple_(*order) > _values(order, after))
    keys = [list(row) for row in conn.execute(query)]
    shown = _shown(house, conn, now, [key[-1] for key in keys])
    return [(_keys(*key), shown[key[-1]]) for key in keys]


_READ = {"budget": _budgets, "question": _questions, "draft": _drafts}
_ORDER = ("behind", "urgency", "playbook", "risk", "doubt", "moment", "id")


def _ordered(house: House, filters: Filters, now: datetime) -> sa.Select[Any]:
    """The drafts that are to be shown, each with its place in the order."""
    morning = morning_of(house.settings.night, now)
    behind = _r.put_back_at >= sa.literal(morning, _r.put_back_at.type)

    def unless_behind(value: Any, otherwise: Any) -> sa.ColumnElement[Any]:
        return sa.case((behind, sa.literal(otherwise)), else_=value)

    kinds = sa.select(_t.playbook, sa.func.min(_t.priority).label("urgency")).where(_t.state == "review")
    kinds_found = kinds.group_by(_t.playbook).subquery()
    tiers = sa.case({risk: -place for place, risk in enumerate(RISKS)}, value=_r.risk)
    moment = sa.case((behind, _r.put_back_at), else_=_r.created_at)
    return (
        _on_the_desk(
            sa.case((behind, 1), else_=0).label("behind"),
            unless_behind(kinds_found.c.urgency, 0).label("urgency"),
            unless_behind(_t.playbook, "").label("playbook"),
            unless_behind(tiers, 0).label("risk"),
            unless_behind(-_r.doubt, 0.0).label("doubt"),
            sa.type_coerce(moment, _r.created_at.type).label("moment"),
            _t.id.label("id"),
        )
        .join(kinds_found, kinds_found.c.playbook == _t.playbook)
        .where(_of(filters), *_further(filters), _is_put_off(now) if filters.later else ~_is_put_off(now))
    )


def _on_the_desk(*columns: Any) -> sa.Select[Any]:
    here = (_r.task_id == _t.id) & (_r.version == _t.version)
    return sa.select(*columns).select_from(tasks).join(reviews, here).where(_t.state == "review")


def _is_put_off(now: datetime) -> sa.ColumnElement[bool]:
    return sa.func.coalesce(_r.later_until > sa.literal(now, _r.later_until.type), sa.false())


def _of(filters: Filters) -> sa.ColumnElement[bool]:
    stated = {"playbook": filters.playbook, "tenant": filters.tenant}
    return sa.and_(sa.true(), *(_t[name] == value for name, value in stated.items() if value is not None))


def _further(filters: Filters) -> list[sa.ColumnElement[bool]]:
    found = [_r.risk == filters.risk] if filters.risk is not None else []
    if filters.failed is not None:
        found.append(_r.doubt >= 1 if filters.failed else _r.doubt < 1)
    return found


def _shown(house: House, conn: sa.Connection, now: datetime, ids: Sequence[str]) -> dict[str, Summary]:
    draft = (drafts.c.task_id == _r.task_id) & (drafts.c.version == _r.version)
    columns = (*reviews.c, *(_t[name] for name in ("id", "playbook", "tenant", "priority", "key", "input")))
    query = _on_the_desk(*columns, drafts.c.passed).outerjoin(drafts, draft).where(_t.id.in_(ids))
    return {row["id"]: _line(house, row, now) for row in conn.execute(query).mappings()}


def _line(house: House, row: Any, now: datetime) -> Summary:
    known = row["playbook"] in house.registry
    playbook = house.registry.get(row["playbook"]) if known else None
    held = row["leased_until"] is not None and row["leased_until"] > now
    kept = ("id", "playbook", "tenant", "version", "hash", "risk", "why_here", "passed", "later_until")
    return _summary(
        {name: row[name] for name in kept}
        | {
            "kind": "draft",
            "title": playbook.title if playbook else row["playbook"],
            "priority": f"P{row['priority']}",
            "sentence": sentence_of(playbook, row) if playbook else f"Decide on {row['id']}",
            "laid_at": row["created_at"],
            "deadline": row["decide_by"],
            "leased_by": row["leased_by"] if held else None,
        }
    )


def _summary(card: Summary) -> Summary:
    return jsonable({name: card.get(name) for name in _FIELDS})  # type: ignore[no-any-return]


def _counts(house: House, conn: sa.Connection, filters: Filters) -> Counts:
    now = house.clock.now()
    put_off = _is_put_off(now)
    query = _on_the_desk(_t.playbook, sa.case((put_off, 1), else_=0).label("later"), sa.func.count().label("count"))
    query = query.where(_of(filters), *_further(filters)).group_by(sa.text("1"), sa.text("2"))
    minutes = ReviewMinutes(house, conn)
    here: dict[str, int] = {}
    later = 0
    for playbook, is_later, count in conn.execute(query):
        if is_later:
            later += count
        else:
            here[playbook] = count
    left = sum(here.values())
    total = left + _decided_today(house, conn, filters, now)
    return Counts(left, total, round(sum(minutes.of(name) * count for name, count in here.items()), 1), later)


def _decided_today(house: House, conn: sa.Connection, filters: Filters, now: datetime) -> int:
    since = decisions.c.decided_at >= morning_of(house.settings.night, now)
    stands = decisions.c.final & decisions.c.undone_at.is_(None)
    query = sa.select(sa.func.count()).select_from(decisions).where(since, stands)
    if filters.playbook is not None or filters.tenant is not None:
        query = query.join(tasks, _t.id == decisions.c.task_id).where(_of(filters))
    return int(conn.execute(query).scalar_one())


def _values(columns: Sequence[Any], key: Key) -> Any:
    """The place as SQL can compare it. NotFound: it is no place of ours."""
    if len(key) != len(columns):
        raise _no_page()
    return sa.tuple_(*(_value(column, part) for column, part in zip(columns, key, strict=True)))


def _value(column: Any, part: Any) -> Any:
    kind = column.type
    try:
        if isinstance(kind, sa.String | sa.Text) and isinstance(part, str) and "\0" not in part:
            return sa.literal(part, kind)
        if isinstance(kind, sa.Integer | sa.SmallInteger) and isinstance(part, int):
            return sa.literal(part, kind)
        if isinstance(kind, sa.Float) and isinstance(part, int | float):
            return sa.literal(float(part), kind)
        moment = datetime.fromisoformat(str(part))
        if moment.tzinfo is not None:
            return sa.literal(moment, kind)
    except ValueError:
        pass
    raise _no_page()


def _cursor(kind: str, key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps([kind, *key]).encode()).decode().rstrip("=")


def _place(cursor: str | None) -> tuple[str, Key | None]:
    if cursor is None:
        return KINDS[0], None
    try:
        kind, *key = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError):
        raise _no_page() from None
    if kind not in KINDS:
        raise _no_page()
    return kind, key


def _no_page() -> NotFound:
    return NotFound("There is no page at this cursor.", "Take the cursor from next_cursor.")
