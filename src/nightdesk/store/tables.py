"""The tables. CHECK constraints refuse what the state machine in `work.states` does not allow."""

import sqlalchemy as sa

from nightdesk.store.types import Instant, JsonText, Money

STATES = (
    "queued", "planned", "working", "waiting", "review", "approved", "releasing",
    "done", "rejected", "expired", "cancelled", "dead",
)  # fmt: skip
FINAL = ("done", "rejected", "expired", "cancelled", "dead")
WAITS = ("batch", "retry", "budget", "person", "switch", "time", "turn", "breaker", "limit", "tasks")

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("playbook_version", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("waiting_for", sa.Text),
    sa.Column("priority", sa.SmallInteger, nullable=False),
    sa.Column("input", JsonText, nullable=False),
    sa.Column("result", JsonText),
    sa.Column("error", JsonText),
    sa.Column("cost_usd", Money, nullable=False, server_default="0"),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("not_before", Instant),
    sa.Column("expires_at", Instant),
    sa.Column("wake_at", Instant),
    sa.Column("ended_at", Instant),
    # Dispatch: `leg` names the stretch of work that may run next, `dispatch` counts every start of one and
    # fences off whoever holds an older number, `strikes` and `failures` count starts and errors without progress.
    sa.Column("leg", sa.Integer, nullable=False, server_default="1"),
    sa.Column("dispatch", sa.Integer, nullable=False, server_default="0"),
    sa.Column("strikes", sa.Integer, nullable=False, server_default="0"),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("worked_ms", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rank", sa.BigInteger),
    sa.Column("slot", sa.Text),
    sa.Column("callback_url", sa.Text),
    # The night that it is planned for or worked on in, and that night's hard stop for it.
    sa.Column("night", sa.Text),
    sa.Column("until", Instant),
    # The task that emitted it.
    sa.Column("parent_id", sa.Text),
    sa.UniqueConstraint("playbook", "tenant", "key"),
    sa.CheckConstraint(one_of("state", STATES), name="state_known"),
    sa.CheckConstraint(one_of("waiting_for", WAITS), name="wait_known"),
    sa.CheckConstraint("(state = 'waiting') = (waiting_for IS NOT NULL)", name="waiting_says_for_what"),
    sa.CheckConstraint("(state = 'working') = (slot IS NOT NULL)", name="working_has_a_slot"),
    sa.CheckConstraint(f"({one_of('state', FINAL)}) = (ended_at IS NOT NULL)", name="ends_have_a_time"),
    sa.CheckConstraint("state <> 'dead' OR error IS NOT NULL", name="dead_says_why"),
    sa.CheckConstraint("rank IS NULL OR state IN ('queued', 'planned', 'waiting')", name="rank_is_for_dispatched"),
    sa.CheckConstraint("priority BETWEEN 0 AND 3", name="priority_known"),
    sa.CheckConstraint("state <> 'planned' OR (night IS NOT NULL AND until IS NOT NULL)", name="planned_for_a_night"),
    sa.CheckConstraint("version >= 1 AND leg >= 1 AND dispatch >= 0 AND strikes >= 0", name="counts_make_sense"),
    sa.Index("ix_tasks_listing", "created_at", "id"),
    sa.Index("ix_tasks_state", "state", "created_at", "id"),
    sa.Index("ix_tasks_tenant", "tenant", "created_at", "id"),
)
sa.Index(
    "ix_tasks_fair", tasks.c.tenant, tasks.c.playbook, tasks.c.priority, tasks.c.rank,
    sqlite_where=tasks.c.rank.is_not(None), postgresql_where=tasks.c.rank.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_tasks_front", tasks.c.priority, tasks.c.rank,
    sqlite_where=tasks.c.rank.is_not(None), postgresql_where=tasks.c.rank.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_tasks_working", tasks.c.playbook, tasks.c.tenant,
    sqlite_where=tasks.c.slot.is_not(None), postgresql_where=tasks.c.slot.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_tasks_waiting", tasks.c.waiting_for, tasks.c.priority, tasks.c.created_at,
    sqlite_where=tasks.c.waiting_for.is_not(None), postgresql_where=tasks.c.waiting_for.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_tasks_expiry", tasks.c.expires_at,
    sqlite_where=tasks.c.expires_at.is_not(None) & tasks.c.ended_at.is_(None),
    postgresql_where=tasks.c.expires_at.is_not(None) & tasks.c.ended_at.is_(None),
)  # fmt: skip

sa.Index(
    "ix_tasks_urgent", tasks.c.playbook,
    sqlite_where=sa.text("priority <= 1 AND rank IS NULL AND ended_at IS NULL"),
    postgresql_where=sa.text("priority <= 1 AND rank IS NULL AND ended_at IS NULL"),
)  # fmt: skip
sa.Index(
    "ix_tasks_night", tasks.c.night, tasks.c.state,
    sqlite_where=tasks.c.night.is_not(None), postgresql_where=tasks.c.night.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_tasks_parent", tasks.c.parent_id,
    sqlite_where=tasks.c.parent_id.is_not(None), postgresql_where=tasks.c.parent_id.is_not(None),
)  # fmt: skip

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("step", sa.Text, primary_key=True),
    sa.Column("occurrence", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("dispatch", sa.Integer, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("duration_ms", sa.BigInteger),
    sa.Column("error_class", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("tools", JsonText),
    sa.Column("cost_usd", Money, nullable=False, server_default="0"),
    sa.Column("input", JsonText),
    sa.Column("input_hash", sa.Text, nullable=False),
    sa.Column("output", JsonText),
    sa.CheckConstraint(one_of("status", ("running", "done", "failed", "waiting")), name="status_known"),
    sa.CheckConstraint("(status IN ('done', 'failed')) = (ended_at IS NOT NULL)", name="ends_have_a_time"),
    sa.CheckConstraint("(status = 'failed') = (error_class IS NOT NULL)", name="failures_have_a_class"),
    sa.CheckConstraint("attempt >= 1 AND occurrence >= 1 AND position >= 1", name="counts_make_sense"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text),
    sa.Column("version", sa.Integer),
    sa.Column("prior_state", sa.Text),
    sa.Column("state", sa.Text),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("detail", JsonText),
    # The sealer fills these two, once; triggers refuse any other change.
    sa.Column("seal_seq", sa.BigInteger),
    sa.Column("seal", sa.Text),
    sa.CheckConstraint("(seal_seq IS NULL) = (seal IS NULL)", name="sealed_as_a_whole"),
    sa.UniqueConstraint("seal_seq"),
    sa.Index("ix_events_task", "task_id", "id"),
    sqlite_autoincrement=True,
)
sa.Index(
    "ix_events_unsealed", events.c.id,
    sqlite_where=events.c.seal_seq.is_(None), postgresql_where=events.c.seal_seq.is_(None),
)  # fmt: skip

switches = sa.Table(
    "switches",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("mode", sa.Text, nullable=False),
    # The empty string stands for "any", so that uniqueness holds.
    sa.Column("playbook", sa.Text, nullable=False, server_default=""),
    sa.Column("tenant", sa.Text, nullable=False, server_default=""),
    sa.Column("connector", sa.Text, nullable=False, server_default=""),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("set_by", sa.Text, nullable=False),
    sa.Column("set_at", Instant, nullable=False),
    sa.CheckConstraint(one_of("mode", ("pause", "stop")), name="mode_known"),
    sa.UniqueConstraint("playbook", "tenant", "connector"),
)

slots = sa.Table(
    "slots",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("holder", sa.Text),
    sa.Column("expires_at", Instant),
    sa.Column("started_at", Instant),
    sa.Column("host", sa.Text),
    sa.Column("pid", sa.Integer),
    sa.CheckConstraint("(holder IS NULL) = (expires_at IS NULL)", name="held_until_when"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Column("scopes", JsonText, nullable=False),
    sa.Column("tenant", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant),
    sa.Column("revoked_at", Instant),
    sa.Column("created_by", sa.Text, nullable=False),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("headers", JsonText, nullable=False),
    sa.Column("body", JsonText, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Index("ix_requests_expiry", "expires_at"),
)

notices = sa.Table(
    "notices",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("payload", JsonText, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("next_at", Instant),
    sa.Column("delivered_at", Instant),
    sa.Column("proof", JsonText),
    sa.Column("last_error", sa.Text),
    sa.CheckConstraint("delivered_at IS NULL OR proof IS NOT NULL", name="delivered_has_proof"),
)
sa.Index(
    "ix_notices_due", notices.c.next_at,
    sqlite_where=notices.c.delivered_at.is_(None), postgresql_where=notices.c.delivered_at.is_(None),
)  # fmt: skip
