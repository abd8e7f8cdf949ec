"""The morning: what lies on the desk, who decided what, what left the house, and who may."""

import sqlalchemy as sa
from alembic import op

from nightdesk.store.types import Instant, JsonText

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("ceiling", sa.Text(), nullable=False),
        sa.Column("identities", JsonText(), nullable=False),
        sa.Column("preferences", JsonText(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("disabled_at", Instant(), nullable=True),
        sa.CheckConstraint(
            "ceiling IN ('internal', 'reversible', 'customer', 'irreversible')", name=op.f("ck_users_ceiling_known")
        ),
        sa.CheckConstraint(
            "role IN ('requester', 'reviewer', 'operator', 'admin', 'auditor')", name=op.f("ck_users_role_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.CheckConstraint("kind IN ('session', 'login')", name=op.f("ck_sessions_kind_known")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id")),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_user", "sessions", ["user_id"], unique=False)
    op.create_table(
        "lots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("sample", sa.Integer(), nullable=False),
        sa.Column("drawn_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.CheckConstraint("state IN ('drawn', 'approved', 'cancelled', 'lapsed')", name=op.f("ck_lots_state_known")),
        sa.CheckConstraint("(state = 'drawn') = (ended_at IS NULL)", name=op.f("ck_lots_ended_when")),
        sa.CheckConstraint("sample BETWEEN 1 AND items", name=op.f("ck_lots_counts_make_sense")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lots")),
    )
    op.create_index(
        "ix_lots_open",
        "lots",
        ["playbook"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "reviews",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("risk", sa.Text(), nullable=False),
        sa.Column("why_here", sa.Text(), nullable=False),
        sa.Column("doubt", sa.Double(), server_default="0", nullable=False),
        sa.Column("seeded", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("copy_of", JsonText(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("decide_by", Instant(), nullable=True),
        sa.Column("later_until", Instant(), nullable=True),
        sa.Column("put_back_at", Instant(), nullable=True),
        sa.Column("lot", sa.Text(), nullable=True),
        sa.Column("sampled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("opened_at", Instant(), nullable=True),
        sa.Column("opened_by", sa.Text(), nullable=True),
        sa.Column("leased_by", sa.Text(), nullable=True),
        sa.Column("leased_until", Instant(), nullable=True),
        sa.CheckConstraint(
            "risk IN ('internal', 'reversible', 'customer', 'irreversible')", name=op.f("ck_reviews_risk_known")
        ),
        sa.CheckConstraint("(leased_by IS NULL) = (leased_until IS NULL)", name=op.f("ck_reviews_leased_until_when")),
        sa.CheckConstraint("seeded = (copy_of IS NOT NULL)", name=op.f("ck_reviews_seeded_is_a_copy")),
        sa.CheckConstraint("lot IS NOT NULL OR NOT sampled", name=op.f("ck_reviews_sampled_of_a_lot")),
        sa.ForeignKeyConstraint(["lot"], ["lots.id"], name=op.f("fk_reviews_lot")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_reviews_task_id")),
        sa.PrimaryKeyConstraint("task_id", "version", name=op.f("pk_reviews")),
    )
    op.create_index("ix_reviews_lot", "reviews", ["lot"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("item", sa.Text(), nullable=True),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("assurance", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("edits", JsonText(), nullable=True),
        sa.Column("diff", JsonText(), nullable=True),
        sa.Column("before", JsonText(), nullable=True),
        sa.Column("gates", JsonText(), nullable=True),
        sa.Column("quick", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("opened_at", Instant(), nullable=True),
        sa.Column("decided_at", Instant(), nullable=False),
        sa.Column("undone_at", Instant(), nullable=True),
        sa.Column("undone_by", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "verb IN ('approve', 'edit', 'send_back', 'reject', 'later')", name=op.f("ck_decisions_verb_known")
        ),
        sa.CheckConstraint("(undone_at IS NULL) = (undone_by IS NULL)", name=op.f("ck_decisions_undone_by_whom")),
        sa.CheckConstraint("(task_id IS NULL) = (version IS NULL)", name=op.f("ck_decisions_version_of_a_task")),
        sa.CheckConstraint("item IS NULL OR NOT final", name=op.f("ck_decisions_final_is_of_drafts")),
        sa.CheckConstraint("item IS NOT NULL OR task_id IS NOT NULL", name=op.f("ck_decisions_about_something")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_decisions_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index(
        "ix_decisions_item",
        "decisions",
        ["item"],
        unique=False,
        sqlite_where=sa.text("item IS NOT NULL"),
        postgresql_where=sa.text("item IS NOT NULL"),
    )
    op.create_index(
        "ix_decisions_one_stands",
        "decisions",
        ["task_id", "version"],
        unique=True,
        sqlite_where=sa.text("final AND undone_at IS NULL"),
        postgresql_where=sa.text("final AND undone_at IS NULL"),
    )
    op.create_index("ix_decisions_task", "decisions", ["task_id", "version", "decided_at"], unique=False)
    op.create_index("ix_decisions_time", "decisions", ["decided_at"], unique=False)
    op.create_table(
        "releases",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("night", sa.Text(), nullable=True),
        sa.Column("connector", sa.Text(), nullable=False),
        sa.Column("target", JsonText(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", Instant(), nullable=True),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("receipt", JsonText(), nullable=True),
        sa.Column("before", JsonText(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'held', 'intent', 'done', 'failed', 'taken_back', 'voided')",
            name=op.f("ck_releases_state_known"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('done', 'taken_back') OR receipt IS NOT NULL", name=op.f("ck_releases_done_has_a_receipt")
        ),
        sa.CheckConstraint("(holder IS NULL) = (held_until IS NULL)", name=op.f("ck_releases_held_until_when")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_releases_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint(
            "task_id", "version", "connector", "key", name=op.f("uq_releases_task_id_version_connector_key")
        ),
    )
    op.create_index(
        "ix_releases_due",
        "releases",
        ["next_at"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_releases_night", "releases", ["night", "state"], unique=False)
    op.create_table(
        "approval_links",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("payload_hash", sa.Text(), nullable=False),
        sa.Column("approver", sa.Text(), nullable=False),
        sa.Column("verbs", JsonText(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("used_at", Instant(), nullable=True),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["approver"], ["users.id"], name=op.f("fk_approval_links_approver")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_approval_links_task_id")),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_approval_links")),
    )
    op.create_index("ix_approval_links_item", "approval_links", ["task_id", "version"], unique=False)
    op.create_table(
        "lessons",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("playbook", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("evidence", JsonText(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("proposed_at", Instant(), nullable=False),
        sa.Column("decided_at", Instant(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.CheckConstraint("(status = 'proposed') = (decided_at IS NULL)", name=op.f("ck_lessons_decided_when")),
        sa.CheckConstraint("status IN ('proposed', 'accepted', 'refused')", name=op.f("ck_lessons_status_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lessons")),
        sa.UniqueConstraint("playbook", "text", name=op.f("uq_lessons_playbook_text")),
    )
