"""The tables of asking models: calls, batches, and what bounds them. Dollars are whole millionths, to add exactly."""

import sqlalchemy as sa

from nightdesk.store.tables import metadata, one_of
from nightdesk.store.types import Instant, JsonText, Money

LANES = ("batch", "flex", "live")
# `lost`: perhaps billed, and the answer cannot be had.
CALL_STATUSES = ("wanted", "sending", "sent", "done", "failed", "diverted", "lost")
CALL_ENDS = ("done", "failed", "diverted", "lost")
BATCH_STATUSES = ("intent", "open", "cancelling", "ended", "failed")

calls = sa.Table(
    "calls",
    metadata,
    # 40 hexadecimal digits of (task, version, body_hash, occurrence): also the item's name in a batch.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("body_hash", sa.Text, nullable=False),
    sa.Column("occurrence", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    # The step that asked, as `draft#1`: its calls are counted apart, for a replay may skip it.
    sa.Column("step", sa.Text, nullable=False, server_default=""),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("asked_model", sa.Text, nullable=False),
    sa.Column("base_url", sa.Text, nullable=False),
    sa.Column("credential", sa.Text, nullable=False),
    sa.Column("wave_group", sa.Text, nullable=False),
    sa.Column("shape", sa.Text, nullable=False),
    sa.Column("headers", JsonText, nullable=False),
    sa.Column("request", JsonText, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("lane_reason", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("priority", sa.SmallInteger, nullable=False),
    # When its answer is of no more use tonight: the hard stop of the night that its task is for.
    sa.Column("deadline", Instant),
    sa.Column("batch_id", sa.Text, sa.ForeignKey("batches.id")),
    sa.Column("http_status", sa.SmallInteger),
    sa.Column("response", JsonText),
    # A failed call whose task was told, failed too, and may ask again.
    sa.Column("again", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("reused_from", sa.Text),
    sa.Column("tools", JsonText),
    sa.Column("input_estimate", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("cache_read_tokens", sa.BigInteger),
    sa.Column("cache_write_tokens", sa.BigInteger),
    sa.Column("cost_usd", Money, nullable=False, server_default="0"),
    sa.Column("saved_usd", Money, nullable=False, server_default="0"),
    sa.Column("prices", sa.Text),
    # What is reserved for it now, and the budgets that hold the reservation.
    sa.Column("reserved_micros", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("budgets", JsonText, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    # When it joined the wave that it waits for.
    sa.Column("joined_at", Instant),
    sa.Column("sent_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("duration_ms", sa.BigInteger),
    sa.UniqueConstraint("task_id", "version", "step", "body_hash", "occurrence"),
    sa.CheckConstraint(one_of("lane", LANES), name="lane_known"),
    sa.CheckConstraint(one_of("status", CALL_STATUSES), name="status_known"),
    sa.CheckConstraint(
        "(status IN ('done', 'failed', 'diverted', 'lost')) = (ended_at IS NOT NULL)", name="ends_have_a_time"
    ),
    sa.CheckConstraint("status <> 'sent' OR batch_id IS NOT NULL", name="sent_in_a_batch"),
    sa.CheckConstraint("status <> 'wanted' OR joined_at IS NOT NULL", name="wanted_since_when"),
    sa.CheckConstraint("status <> 'done' OR response IS NOT NULL", name="done_has_an_answer"),
    sa.CheckConstraint("status IN ('wanted', 'sending', 'sent') OR reserved_micros = 0", name="ends_reserve_nothing"),
    sa.CheckConstraint("reserved_micros >= 0 AND attempt >= 0 AND occurrence >= 1", name="counts_make_sense"),
    sa.Index("ix_calls_listing", "created_at", "id"),
    sa.Index("ix_calls_batch", "batch_id", "status"),
)
sa.Index(
    "ix_calls_wanted", calls.c.wave_group, calls.c.joined_at,
    sqlite_where=calls.c.status == "wanted", postgresql_where=calls.c.status == "wanted",
)  # fmt: skip
sa.Index(
    "ix_calls_sending", calls.c.sent_at,
    sqlite_where=calls.c.status == "sending", postgresql_where=calls.c.status == "sending",
)  # fmt: skip
sa.Index(
    "ix_calls_due", calls.c.deadline,
    sqlite_where=calls.c.status.in_(("wanted", "sent")), postgresql_where=calls.c.status.in_(("wanted", "sent")),
)  # fmt: skip
sa.Index(
    "ix_calls_finished", calls.c.body_hash,
    sqlite_where=calls.c.status == "done", postgresql_where=calls.c.status == "done",
)  # fmt: skip

batches = sa.Table(
    "batches",
    metadata,
    # Ours, made before the batch is: sent along as its name or metadata where the provider keeps one.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("base_url", sa.Text, nullable=False),
    sa.Column("credential", sa.Text, nullable=False),
    sa.Column("wave_group", sa.Text, nullable=False),
    sa.Column("headers", JsonText, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("members", sa.Integer, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("provider_id", sa.Text),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("polls", sa.Integer, nullable=False, server_default="0"),
    sa.Column("holder", sa.Text),
    sa.Column("held_until", Instant),
    sa.Column("next_at", Instant),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("submitted_at", Instant),
    sa.Column("expected_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("outcome", JsonText),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("provider", "base_url", "provider_id"),
    sa.CheckConstraint(one_of("status", BATCH_STATUSES), name="status_known"),
    sa.CheckConstraint("(status IN ('ended', 'failed')) = (ended_at IS NOT NULL)", name="ends_have_a_time"),
    sa.CheckConstraint("status NOT IN ('open', 'cancelling') OR provider_id IS NOT NULL", name="open_has_an_id"),
    sa.CheckConstraint("(holder IS NULL) = (held_until IS NULL)", name="held_until_when"),
    sa.CheckConstraint("members >= 1 AND polls >= 0", name="counts_make_sense"),
    sa.Index("ix_batches_learned", "provider", "model", "ended_at"),
)
sa.Index(
    "ix_batches_due", batches.c.next_at,
    sqlite_where=batches.c.ended_at.is_(None), postgresql_where=batches.c.ended_at.is_(None),
)  # fmt: skip

shapes = sa.Table(
    "shapes",
    metadata,
    sa.Column("shape", sa.Text, primary_key=True),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.CheckConstraint(one_of("status", ("trying", "good", "bad")), name="status_known"),
)

budgets = sa.Table(
    "budgets",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    # The date of a daily budget; empty for one that has no day.
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("limit_micros", sa.BigInteger),
    sa.Column("raised_micros", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("reserved_micros", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("spent_micros", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("asked_at", Instant),
    # When money last became free in it, for the tasks that wait for some.
    sa.Column("freed_at", Instant),
    sa.Column("updated_at", Instant, nullable=False),
    sa.CheckConstraint(one_of("scope", ("task", "playbook", "tenant", "night", "day")), name="scope_known"),
    sa.CheckConstraint("reserved_micros >= 0 AND spent_micros >= 0", name="sums_make_sense"),
)

rate_buckets = sa.Table(
    "rate_buckets",
    metadata,
    # An asterisk stands for any.
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("credential", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("dimension", sa.Text, primary_key=True),
    # Below zero it is what callers have taken ahead of the refill, each waiting for its share.
    sa.Column("level", sa.Double, nullable=False),
    sa.Column("capacity", sa.Double, nullable=False),
    sa.Column("per_second", sa.Double, nullable=False),
    sa.Column("blocked_until", Instant),
    # The second, since 1970, until which the turns are given away of those who were sent away to come back.
    sa.Column("promised", sa.Double, nullable=False, server_default="0"),
    sa.Column("learned", sa.Boolean, nullable=False, server_default=sa.text("false")),
    # The second, since 1970, at which `level` was right: a number, to be refilled from by the same SQL everywhere.
    sa.Column("as_of", sa.Double, nullable=False),
    sa.CheckConstraint(
        one_of("dimension", ("requests", "input_tokens", "output_tokens", "queued_tokens")), name="dimension_known"
    ),
    sa.CheckConstraint("capacity > 0 AND per_second >= 0", name="rates_make_sense"),
)

breakers = sa.Table(
    "breakers",
    metadata,
    # An asterisk stands for any model, any lane.
    sa.Column("provider", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("lane", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    # When the newest of the failures running were, in seconds since 1970.
    sa.Column("failed_at", JsonText, nullable=False),
    sa.Column("until", Instant),
    sa.Column("why", sa.Text, nullable=False, server_default=""),
    sa.Column("changed_at", Instant, nullable=False),
    sa.CheckConstraint(one_of("state", ("closed", "open", "trial", "latched")), name="state_known"),
    sa.CheckConstraint("(state IN ('open', 'trial')) = (until IS NOT NULL)", name="open_until_when"),
    sa.CheckConstraint(one_of("lane", (*LANES, "*")), name="lane_known"),
)
