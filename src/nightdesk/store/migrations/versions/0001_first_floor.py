"""The first floor: tasks, their paper trail, switches, slots, tokens, idempotent requests, notices."""

import sqlalchemy as sa
from alembic import op

from nightdesk.store.types import Instant, JsonText, Money

revision = "0001"
down_revision = None

APPEND_ONLY = {
    "sqlite": [
        """CREATE TRIGGER events_no_delete BEFORE DELETE ON events
           BEGIN SELECT RAISE(ABORT, 'events is append-only'); END""",
        """CREATE TRIGGER events_no_update BEFORE UPDATE ON events
           WHEN OLD.seal IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.at IS NOT OLD.at OR NEW.kind IS NOT OLD.kind
             OR NEW.task_id IS NOT OLD.task_id OR NEW.version IS NOT OLD.version
             OR NEW.prior_state IS NOT OLD.prior_state OR NEW.state IS NOT OLD.state OR NEW.cause IS NOT OLD.cause
             OR NEW.actor IS NOT OLD.actor OR NEW.detail IS NOT OLD.detail
           BEGIN SELECT RAISE(ABORT, 'events is append-only'); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION nightdesk_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN
             IF TG_OP = 'UPDATE' AND OLD.seal IS NULL
                AND (OLD.id, OLD.at, OLD.kind, OLD.task_id, OLD.version, OLD.prior_state, OLD.state, OLD.cause,
                     OLD.actor, OLD.detail::text)
                    IS NOT DISTINCT FROM
                    (NEW.id, NEW.at, NEW.kind, NEW.task_id, NEW.version, NEW.prior_state, NEW.state, NEW.cause,
                     NEW.actor, NEW.detail::text)
             THEN RETURN NEW; END IF;
             RAISE EXCEPTION 'events is append-only';
           END $$""",
        """CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events
           FOR EACH ROW EXECUTE FUNCTION nightdesk_append_only()""",
        """CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events
           FOR EACH STATEMENT EXECUTE FUNCTION nightdesk_append_only()""",
    ],
}


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("prior_state", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("detail", JsonText(), nullable=True),
        sa.Column("seal_seq", sa.BigInteger(), nullable=True),
        sa.Column("seal", sa.Text(), nullable=True),
        sa.CheckConstraint("(seal_seq IS NULL) = (seal IS NULL)", name=op.f("ck_events_sealed_as_a_whole")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("seal_seq", name=op.f("uq_events_seal_seq")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_task", "events", ["task_id", "id"], unique=False)
    op.create_index(
        "ix_events_unsealed",
        "events",
        ["id"],
        unique=False,
        sqlite_where=sa.text("seal_seq IS NULL"),
        postgresql_where=sa.text("seal_seq IS NULL"),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("payload", JsonText(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("delivered_at", Instant(), nullable=True),
        sa.Column("proof", JsonText(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint("delivered_at IS NULL OR proof IS NOT NULL", name=op.f("ck_notices_delivered_has_proof")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    op.create_index(
        "ix_notices_due",
        "notices",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("delivered_at IS NULL"),
        postgresql_where=sa.text("delivered_at IS NULL"),
    )
    op.create_table(
        "requests",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("headers", JsonText(), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name=op.f("pk_requests")),
    )
    op.create_index("ix_requests_expiry", "requests", ["expires_at"], unique=False)
    op.create_table(
        "slots",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.CheckConstraint("(holder IS NULL) = (expires_at IS NULL)", name=op.f("ck_slots_held_until_when")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_slots")),
    )
    op.create_table(
        "switches",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), server_default="", nullable=False),
        sa.Column("tenant", sa.Text(), server_default="", nullable=False),
        sa.Column("connector", sa.Text(), server_default="", nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", Instant(), nullable=False),
        sa.CheckConstraint("mode IN ('pause', 'stop')", name=op.f("ck_switches_mode_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_switches")),
        sa.UniqueConstraint("playbook", "tenant", "connector", name=op.f("uq_switches_playbook_tenant_connector")),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("playbook_version", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("input", JsonText(), nullable=False),
        sa.Column("result", JsonText(), nullable=True),
        sa.Column("error", JsonText(), nullable=True),
        sa.Column("cost_usd", Money(), server_default="0", nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.Column("not_before", Instant(), nullable=True),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("wake_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("leg", sa.Integer(), server_default="1", nullable=False),
        sa.Column("dispatch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("strikes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worked_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("slot", sa.Text(), nullable=True),
        sa.Column("callback_url", sa.Text(), nullable=True),
        sa.Column("night", sa.Text(), nullable=True),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state = 'waiting') = (waiting_for IS NOT NULL)", name=op.f("ck_tasks_waiting_says_for_what")
        ),
        sa.CheckConstraint("(state = 'working') = (slot IS NOT NULL)", name=op.f("ck_tasks_working_has_a_slot")),
        sa.CheckConstraint(
            "(state IN ('done', 'rejected', 'expired', 'cancelled', 'dead')) = (ended_at IS NOT NULL)",
            name=op.f("ck_tasks_ends_have_a_time"),
        ),
        sa.CheckConstraint(
            "rank IS NULL OR state IN ('queued', 'planned', 'waiting')", name=op.f("ck_tasks_rank_is_for_dispatched")
        ),
        sa.CheckConstraint("state <> 'dead' OR error IS NOT NULL", name=op.f("ck_tasks_dead_says_why")),
        sa.CheckConstraint(
            "state IN ('queued', 'planned', 'working', 'waiting', 'review', 'approved', 'releasing', "
            "'done', 'rejected', 'expired', 'cancelled', 'dead')",
            name=op.f("ck_tasks_state_known"),
        ),
        sa.CheckConstraint(
            "waiting_for IN ('batch', 'retry', 'budget', 'person', 'switch', 'time', 'turn', 'breaker', 'limit', "
            "'tasks')",
            name=op.f("ck_tasks_wait_known"),
        ),
        sa.CheckConstraint("priority BETWEEN 0 AND 3", name=op.f("ck_tasks_priority_known")),
        sa.CheckConstraint(
            "state <> 'planned' OR (night IS NOT NULL AND until IS NOT NULL)", name=op.f("ck_tasks_planned_for_a_night")
        ),
        sa.CheckConstraint(
            "version >= 1 AND leg >= 1 AND dispatch >= 0 AND strikes >= 0", name=op.f("ck_tasks_counts_make_sense")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("playbook", "tenant", "key", name=op.f("uq_tasks_playbook_tenant_key")),
    )
    op.create_index(
        "ix_tasks_expiry",
        "tasks",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("expires_at IS NOT NULL AND ended_at IS NULL"),
        postgresql_where=sa.text("expires_at IS NOT NULL AND ended_at IS NULL"),
    )
    op.create_index(
        "ix_tasks_fair",
        "tasks",
        ["tenant", "playbook", "priority", "rank"],
        unique=False,
        sqlite_where=sa.text("rank IS NOT NULL"),
        postgresql_where=sa.text("rank IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_front",
        "tasks",
        ["priority", "rank"],
        unique=False,
        sqlite_where=sa.text("rank IS NOT NULL"),
        postgresql_where=sa.text("rank IS NOT NULL"),
    )
    op.create_index("ix_tasks_listing", "tasks", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_tasks_night",
        "tasks",
        ["night", "state"],
        unique=False,
        sqlite_where=sa.text("night IS NOT NULL"),
        postgresql_where=sa.text("night IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_parent",
        "tasks",
        ["parent_id"],
        unique=False,
        sqlite_where=sa.text("parent_id IS NOT NULL"),
        postgresql_where=sa.text("parent_id IS NOT NULL"),
    )
    op.create_index("ix_tasks_state", "tasks", ["state", "created_at", "id"], unique=False)
    op.create_index("ix_tasks_tenant", "tasks", ["tenant", "created_at", "id"], unique=False)
    op.create_index(
        "ix_tasks_waiting",
        "tasks",
        ["waiting_for", "priority", "created_at"],
        unique=False,
        sqlite_where=sa.text("waiting_for IS NOT NULL"),
        postgresql_where=sa.text("waiting_for IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_working",
        "tasks",
        ["playbook", "tenant"],
        unique=False,
        sqlite_where=sa.text("slot IS NOT NULL"),
        postgresql_where=sa.text("slot IS NOT NULL"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("scopes", JsonText(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "runs",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("dispatch", sa.Integer(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("tools", JsonText(), nullable=True),
        sa.Column("cost_usd", Money(), server_default="0", nullable=False),
        sa.Column("input", JsonText(), nullable=True),
        sa.Column("input_hash", sa.Text(), nullable=False),
        sa.Column("output", JsonText(), nullable=True),
        sa.CheckConstraint(
            "(status = 'failed') = (error_class IS NOT NULL)", name=op.f("ck_runs_failures_have_a_class")
        ),
        sa.CheckConstraint(
            "(status IN ('done', 'failed')) = (ended_at IS NOT NULL)", name=op.f("ck_runs_ends_have_a_time")
        ),
        sa.CheckConstraint("status IN ('running', 'done', 'failed', 'waiting')", name=op.f("ck_runs_status_known")),
        sa.CheckConstraint(
            "attempt >= 1 AND occurrence >= 1 AND position >= 1", name=op.f("ck_runs_counts_make_sense")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_runs_task_id")),
        sa.PrimaryKeyConstraint("task_id", "version", "step", "occurrence", name=op.f("pk_runs")),
    )
    for statement in APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)
