"""Asking models: calls, batches, shapes, and what bounds them: budgets, rate buckets, breakers."""

import sqlalchemy as sa
from alembic import op

from nightdesk.store.types import Instant, JsonText, Money

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("wave_group", sa.Text(), nullable=False),
        sa.Column("headers", JsonText(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("polls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", Instant(), nullable=True),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("submitted_at", Instant(), nullable=True),
        sa.Column("expected_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("outcome", JsonText(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(status IN ('ended', 'failed')) = (ended_at IS NOT NULL)", name=op.f("ck_batches_ends_have_a_time")
        ),
        sa.CheckConstraint(
            "status IN ('intent', 'open', 'cancelling', 'ended', 'failed')", name=op.f("ck_batches_status_known")
        ),
        sa.CheckConstraint(
            "status NOT IN ('open', 'cancelling') OR provider_id IS NOT NULL", name=op.f("ck_batches_open_has_an_id")
        ),
        sa.CheckConstraint("(holder IS NULL) = (held_until IS NULL)", name=op.f("ck_batches_held_until_when")),
        sa.CheckConstraint("members >= 1 AND polls >= 0", name=op.f("ck_batches_counts_make_sense")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
        sa.UniqueConstraint(
            "provider", "base_url", "provider_id", name=op.f("uq_batches_provider_base_url_provider_id")
        ),
    )
    op.create_index(
        "ix_batches_due",
        "batches",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_batches_learned", "batches", ["provider", "model", "ended_at"], unique=False)
    op.create_table(
        "breakers",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed_at", JsonText(), nullable=False),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("changed_at", Instant(), nullable=False),
        sa.CheckConstraint(
            "(state IN ('open', 'trial')) = (until IS NOT NULL)", name=op.f("ck_breakers_open_until_when")
        ),
        sa.CheckConstraint("lane IN ('batch', 'flex', 'live', '*')", name=op.f("ck_breakers_lane_known")),
        sa.CheckConstraint("state IN ('closed', 'open', 'trial', 'latched')", name=op.f("ck_breakers_state_known")),
        sa.PrimaryKeyConstraint("provider", "model", "lane", name=op.f("pk_breakers")),
    )
    op.create_table(
        "budgets",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("limit_micros", sa.BigInteger(), nullable=True),
        sa.Column("raised_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("spent_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("asked_at", Instant(), nullable=True),
        sa.Column("freed_at", Instant(), nullable=True),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.CheckConstraint(
            "scope IN ('task', 'playbook', 'tenant', 'night', 'day')", name=op.f("ck_budgets_scope_known")
        ),
        sa.CheckConstraint("reserved_micros >= 0 AND spent_micros >= 0", name=op.f("ck_budgets_sums_make_sense")),
        sa.PrimaryKeyConstraint("scope", "name", "day", name=op.f("pk_budgets")),
    )
    op.create_table(
        "rate_buckets",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("per_second", sa.Double(), nullable=False),
        sa.Column("blocked_until", Instant(), nullable=True),
        sa.Column("promised", sa.Double(), server_default="0", nullable=False),
        sa.Column("learned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("as_of", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "dimension IN ('requests', 'input_tokens', 'output_tokens', 'queued_tokens')",
            name=op.f("ck_rate_buckets_dimension_known"),
        ),
        sa.CheckConstraint("capacity > 0 AND per_second >= 0", name=op.f("ck_rate_buckets_rates_make_sense")),
        sa.PrimaryKeyConstraint("provider", "credential", "model", "tenant", "dimension", name=op.f("pk_rate_buckets")),
    )
    op.create_table(
        "shapes",
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.CheckConstraint("status IN ('trying', 'good', 'bad')", name=op.f("ck_shapes_status_known")),
        sa.PrimaryKeyConstraint("shape", name=op.f("pk_shapes")),
    )
    op.create_table(
        "calls",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text(), server_default="", nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("asked_model", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("wave_group", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("headers", JsonText(), nullable=False),
        sa.Column("request", JsonText(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("lane_reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("deadline", Instant(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("http_status", sa.SmallInteger(), nullable=True),
        sa.Column("response", JsonText(), nullable=True),
        sa.Column("again", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("reused_from", sa.Text(), nullable=True),
        sa.Column("tools", JsonText(), nullable=True),
        sa.Column("input_estimate", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", Money(), server_default="0", nullable=False),
        sa.Column("saved_usd", Money(), server_default="0", nullable=False),
        sa.Column("prices", sa.Text(), nullable=True),
        sa.Column("reserved_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("budgets", JsonText(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("joined_at", Instant(), nullable=True),
        sa.Column("sent_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(status IN ('done', 'failed', 'diverted', 'lost')) = (ended_at IS NOT NULL)",
            name=op.f("ck_calls_ends_have_a_time"),
        ),
        sa.CheckConstraint("lane IN ('batch', 'flex', 'live')", name=op.f("ck_calls_lane_known")),
        sa.CheckConstraint("status <> 'wanted' OR joined_at IS NOT NULL", name=op.f("ck_calls_wanted_since_when")),
        sa.CheckConstraint("status <> 'done' OR response IS NOT NULL", name=op.f("ck_calls_done_has_an_answer")),
        sa.CheckConstraint("status <> 'sent' OR batch_id IS NOT NULL", name=op.f("ck_calls_sent_in_a_batch")),
        sa.CheckConstraint(
            "status IN ('wanted', 'sending', 'sent') OR reserved_micros = 0", name=op.f("ck_calls_ends_reserve_nothing")
        ),
        sa.CheckConstraint(
            "status IN ('wanted', 'sending', 'sent', 'done', 'failed', 'diverted', 'lost')",
            name=op.f("ck_calls_status_known"),
        ),
        sa.CheckConstraint(
            "reserved_micros >= 0 AND attempt >= 0 AND occurrence >= 1", name=op.f("ck_calls_counts_make_sense")
        ),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=op.f("fk_calls_batch_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_calls_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calls")),
        sa.UniqueConstraint(
            "task_id",
            "version",
            "step",
            "body_hash",
            "occurrence",
            name=op.f("uq_calls_task_id_version_step_body_hash_occurrence"),
        ),
    )
    op.create_index("ix_calls_batch", "calls", ["batch_id", "status"], unique=False)
    op.create_index(
        "ix_calls_due",
        "calls",
        ["deadline"],
        unique=False,
        sqlite_where=sa.text("status IN ('wanted', 'sent')"),
        postgresql_where=sa.text("status IN ('wanted', 'sent')"),
    )
    op.create_index(
        "ix_calls_finished",
        "calls",
        ["body_hash"],
        unique=False,
        sqlite_where=sa.text("status = 'done'"),
        postgresql_where=sa.text("status = 'done'"),
    )
    op.create_index("ix_calls_listing", "calls", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_calls_sending",
        "calls",
        ["sent_at"],
        unique=False,
        sqlite_where=sa.text("status = 'sending'"),
        postgresql_where=sa.text("status = 'sending'"),
    )
    op.create_index(
        "ix_calls_wanted",
        "calls",
        ["wave_group", "joined_at"],
        unique=False,
        sqlite_where=sa.text("status = 'wanted'"),
        postgresql_where=sa.text("status = 'wanted'"),
    )
