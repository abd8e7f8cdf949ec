"""The tables of the night: nights with their plans, what gates found, launch tests, alerts."""

import sqlalchemy as sa

from nightdesk.store.asking import LANES
from nightdesk.store.tables import metadata, one_of
from nightdesk.store.types import Instant, JsonText, Money

# While it is `planning` its plan is not whole yet: nobody but the planner looks at it.
NIGHT_STATES = ("planning", "planned", "open", "closing", "closed")

nights = sa.Table(
    "nights",
    metadata,
    # The date of its evening; one begun by hand has a number behind it, as 2030-01-31.1.
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("by_hand", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("cutoff_at", Instant, nullable=False),
    sa.Column("starts_at", Instant, nullable=False),
    sa.Column("stops_at", Instant, nullable=False),
    sa.Column("summary_at", Instant, nullable=False),
    sa.Column("planned_at", Instant, nullable=False),
    # Who writes its plan, and until when he is taken to be alive.
    sa.Column("maker", sa.Text),
    sa.Column("maker_until", Instant),
    sa.Column("opened_at", Instant),
    sa.Column("closed_at", Instant),
    # When something in it last moved: silence is an alarm.
    sa.Column("moved_at", Instant, nullable=False),
    sa.Column("summarised_at", Instant),
    # The sums of the plan, and what the night came to.
    sa.Column("plan", JsonText, nullable=False),
    sa.Column("figures", JsonText),
    sa.CheckConstraint(one_of("state", NIGHT_STATES), name="state_known"),
    # One that was still only planned when its time was over has never opened.
    sa.CheckConstraint("state NOT IN ('planning', 'planned') OR opened_at IS NULL", name="planned_is_not_open"),
    sa.CheckConstraint("state <> 'open' OR opened_at IS NOT NULL", name="open_since_when"),
    sa.CheckConstraint("(state = 'planning') = (maker IS NOT NULL)", name="planning_has_a_maker"),
    sa.CheckConstraint("(maker IS NULL) = (maker_until IS NULL)", name="made_until_when"),
    sa.CheckConstraint("(state = 'closed') = (closed_at IS NOT NULL)", name="closed_when"),
    sa.CheckConstraint("state <> 'closed' OR figures IS NOT NULL", name="closed_has_figures"),
    sa.Index("ix_nights_start", "starts_at"),
)

plan_items = sa.Table(
    "plan_items",
    metadata,
    sa.Column("night", sa.Text, sa.ForeignKey("nights.name"), primary_key=True),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("lane", sa.Text),
    sa.Column("worst_micros", sa.BigInteger, nullable=False),
    sa.Column("likely_micros", sa.BigInteger, nullable=False),
    sa.Column("review_minutes", sa.Double, nullable=False),
    sa.Column("chosen", sa.Boolean, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("starts_at", Instant, nullable=False),
    sa.Column("stops_at", Instant, nullable=False),
    # Who kept or dropped it after the plan was made.
    sa.Column("changed_by", sa.Text),
    sa.Column("dispatched_at", Instant),
    sa.CheckConstraint(one_of("lane", LANES), name="lane_known"),
    sa.CheckConstraint("worst_micros >= 0 AND likely_micros >= 0 AND review_minutes >= 0", name="sums_make_sense"),
    sa.Index("ix_plan_items_order", "night", "chosen", "position"),
)
sa.Index(
    "ix_plan_items_due", plan_items.c.night, plan_items.c.chosen, plan_items.c.position,
    sqlite_where=plan_items.c.dispatched_at.is_(None), postgresql_where=plan_items.c.dispatched_at.is_(None),
)  # fmt: skip

drafts = sa.Table(
    "drafts",
    metadata,
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("payload", JsonText, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("gates", JsonText, nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index("ix_drafts_hash", "hash"),
)

# What drafts of a kind are found by that are nearly the same: a few numbers made from each one's words.
draft_marks = sa.Table(
    "draft_marks",
    metadata,
    sa.Column("mark", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sqlite_with_rowid=False,
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("playbook_version", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("cases", sa.Integer, nullable=False),
    sa.Column("passed", sa.Integer, nullable=False),
    sa.Column("cost_usd", Money, nullable=False),
    sa.Column("duration_ms", sa.BigInteger, nullable=False),
    sa.Column("report", JsonText, nullable=False),
    sa.CheckConstraint("passed BETWEEN 0 AND cases AND cases >= 1", name="counts_make_sense"),
    sa.Index("ix_trials_playbook", "playbook", "at"),
)

alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    # What it is about: a night, a playbook, a provider.
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("raised_at", Instant, nullable=False),
    sa.Column("cleared_at", Instant),
    sa.Column("acknowledged_by", sa.Text),
    sa.Index("ix_alerts_open", "kind", "subject"),
)
