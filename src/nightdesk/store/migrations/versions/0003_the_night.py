"""The night: nights with their plans, what gates found, launch tests, alerts."""

import sqlalchemy as sa
from alembic import op

from nightdesk.store.types import Instant, JsonText, Money

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "nights",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("by_hand", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("cutoff_at", Instant(), nullable=False),
        sa.Column("starts_at", Instant(), nullable=False),
        sa.Column("stops_at", Instant(), nullable=False),
        sa.Column("summary_at", Instant(), nullable=False),
        sa.Column("planned_at", Instant(), nullable=False),
        sa.Column("maker", sa.Text(), nullable=True),
        sa.Column("maker_until", Instant(), nullable=True),
        sa.Column("opened_at", Instant(), nullable=True),
        sa.Column("closed_at", Instant(), nullable=True),
        sa.Column("moved_at", Instant(), nullable=False),
        sa.Column("summarised_at", Instant(), nullable=True),
        sa.Column("plan", JsonText(), nullable=False),
        sa.Column("figures", JsonText(), nullable=True),
        sa.CheckConstraint("(state = 'closed') = (closed_at IS NOT NULL)", name=op.f("ck_nights_closed_when")),
        sa.CheckConstraint(
            "state NOT IN ('planning', 'planned') OR opened_at IS NULL", name=op.f("ck_nights_planned_is_not_open")
        ),
        sa.CheckConstraint("(state = 'planning') = (maker IS NOT NULL)", name=op.f("ck_nights_planning_has_a_maker")),
        sa.CheckConstraint("(maker IS NULL) = (maker_until IS NULL)", name=op.f("ck_nights_made_until_when")),
        sa.CheckConstraint("state <> 'open' OR opened_at IS NOT NULL", name=op.f("ck_nights_open_since_when")),
        sa.CheckConstraint("state <> 'closed' OR figures IS NOT NULL", name=op.f("ck_nights_closed_has_figures")),
        sa.CheckConstraint(
            "state IN ('planning', 'planned', 'open', 'closing', 'closed')", name=op.f("ck_nights_state_known")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nights")),
    )
    op.create_index("ix_nights_start", "nights", ["starts_at"], unique=False)
    op.create_table(
        "plan_items",
        sa.Column("night", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.Column("worst_micros", sa.BigInteger(), nullable=False),
        sa.Column("likely_micros", sa.BigInteger(), nullable=False),
        sa.Column("review_minutes", sa.Double(), nullable=False),
        sa.Column("chosen", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("starts_at", Instant(), nullable=False),
        sa.Column("stops_at", Instant(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=True),
        sa.Column("dispatched_at", Instant(), nullable=True),
        sa.CheckConstraint("lane IN ('batch', 'flex', 'live')", name=op.f("ck_plan_items_lane_known")),
        sa.CheckConstraint(
            "worst_micros >= 0 AND likely_micros >= 0 AND review_minutes >= 0",
            name=op.f("ck_plan_items_sums_make_sense"),
        ),
        sa.ForeignKeyConstraint(["night"], ["nights.name"], name=op.f("fk_plan_items_night")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_plan_items_task_id")),
        sa.PrimaryKeyConstraint("night", "task_id", name=op.f("pk_plan_items")),
    )
    op.create_index("ix_plan_items_order", "plan_items", ["night", "chosen", "position"], unique=False)
    op.create_index(
        "ix_plan_items_due",
        "plan_items",
        ["night", "chosen", "position"],
        unique=False,
        sqlite_where=sa.text("dispatched_at IS NULL"),
        postgresql_where=sa.text("dispatched_at IS NULL"),
    )
    urgent = sa.text("priority <= 1 AND rank IS NULL AND ended_at IS NULL")
    op.create_index(
        "ix_tasks_urgent", "tasks", ["playbook"], unique=False, sqlite_where=urgent, postgresql_where=urgent
    )
    op.create_table(
        "drafts",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("payload", JsonText(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("gates", JsonText(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_drafts_task_id")),
        sa.PrimaryKeyConstraint("task_id", "version", name=op.f("pk_drafts")),
    )
    op.create_index("ix_drafts_hash", "drafts", ["hash"], unique=False)
    op.create_table(
        "draft_marks",
        sa.Column("mark", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_draft_marks_task_id")),
        sa.PrimaryKeyConstraint("mark", "task_id", "version", name=op.f("pk_draft_marks")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("playbook_version", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("cases", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("cost_usd", Money(precision=18, scale=6), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("report", JsonText(), nullable=False),
        sa.CheckConstraint("passed BETWEEN 0 AND cases AND cases >= 1", name=op.f("ck_trials_counts_make_sense")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
    )
    op.create_index("ix_trials_playbook", "trials", ["playbook", "at"], unique=False)
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("raised_at", Instant(), nullable=False),
        sa.Column("cleared_at", Instant(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index("ix_alerts_open", "alerts", ["kind", "subject"], unique=False)
