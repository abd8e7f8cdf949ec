"""The tables of the morning: what lies on the desk, who decided what, what left the house, and who may."""

import sqlalchemy as sa

from nightdesk.store.tables import metadata, one_of
from nightdesk.store.types import Instant, JsonText

RISKS = ("internal", "reversible", "customer", "irreversible")
VERBS = ("approve", "edit", "send_back", "reject", "later", "undo")
ROLES = ("requester", "reviewer", "operator", "admin", "auditor")
LOT_STATES = ("drawn", "approved", "cancelled", "lapsed")
RELEASE_STATES = ("waiting", "held", "intent", "done", "failed", "taken_back", "voided")

users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("email", sa.Text),
    sa.Column("role", sa.Text, nullable=False),
    # The highest risk that a reviewer may decide on.
    sa.Column("ceiling", sa.Text, nullable=False),
    # Where chat platforms know them: {"slack": "U…"}; seeing a message is no authority.
    sa.Column("identities", JsonText, nullable=False),
    sa.Column("preferences", JsonText, nullable=False),
    sa.Column("password_hash", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("disabled_at", Instant),
    sa.CheckConstraint(one_of("role", ROLES), name="role_known"),
    sa.CheckConstraint(one_of("ceiling", RISKS), name="ceiling_known"),
)

sessions = sa.Table(
    "sessions",
    metadata,
    # Only the hash of what the cookie, or a one-time login link, carries.
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, sa.ForeignKey("users.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.CheckConstraint(one_of("kind", ("session", "login")), name="kind_known"),
    sa.Index("ix_sessions_user", "user_id"),
)

reviews = sa.Table(
    "reviews",
    metadata,
    # One row per draft that is or was on the desk.
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("risk", sa.Text, nullable=False),
    sa.Column("why_here", sa.Text, nullable=False),
    # How sure the gates are, from 0 on; more is looked at first.
    sa.Column("doubt", sa.Double, nullable=False, server_default="0"),
    # A known-bad item put there to see whether it is caught, and the draft that it is a copy of; never releasable.
    sa.Column("seeded", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("copy_of", JsonText),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("decide_by", Instant),
    # Put off: until a moment, or behind everything else of that day.
    sa.Column("later_until", Instant),
    sa.Column("put_back_at", Instant),
    # The lot that it may be approved with, and whether it is of the sample that is read.
    sa.Column("lot", sa.Text, sa.ForeignKey("lots.id")),
    sa.Column("sampled", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("opened_at", Instant),
    sa.Column("opened_by", sa.Text),
    sa.Column("leased_by", sa.Text),
    sa.Column("leased_until", Instant),
    sa.CheckConstraint(one_of("risk", RISKS), name="risk_known"),
    sa.CheckConstraint("(leased_by IS NULL) = (leased_until IS NULL)", name="leased_until_when"),
    sa.CheckConstraint("seeded = (copy_of IS NOT NULL)", name="seeded_is_a_copy"),
    sa.CheckConstraint("lot IS NOT NULL OR NOT sampled", name="sampled_of_a_lot"),
    sa.Index("ix_reviews_lot", "lot"),
)

lots = sa.Table(
    "lots",
    metadata,
    # Drafts of one playbook that are approved together once a sample of them was read.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("items", sa.Integer, nullable=False),
    sa.Column("sample", sa.Integer, nullable=False),
    sa.Column("drawn_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.CheckConstraint(one_of("state", LOT_STATES), name="state_known"),
    sa.CheckConstraint("(state = 'drawn') = (ended_at IS NULL)", name="ended_when"),
    sa.CheckConstraint("sample BETWEEN 1 AND items", name="counts_make_sense"),
)
sa.Index(
    "ix_lots_open", lots.c.playbook,
    sqlite_where=lots.c.ended_at.is_(None), postgresql_where=lots.c.ended_at.is_(None),
)  # fmt: skip

decisions = sa.Table(
    "decisions",
    metadata,
    # What it is about and its number there.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id")),
    sa.Column("version", sa.Integer),
    # What it is about where that is no draft: a question, a budget.
    sa.Column("item", sa.Text),
    # Of what was decided on; after an edit, of what came of it.
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("verb", sa.Text, nullable=False),
    # Whether it settles a draft. The first of two approvals that a risk needs does not; nor does any answer to a
    # question, a budget or a seeded item, so that no rate counts them.
    sa.Column("final", sa.Boolean, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    # How sure it is who decided: session, token, link, chat.
    sa.Column("assurance", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("note", sa.Text),
    sa.Column("edits", JsonText),
    sa.Column("diff", JsonText),
    # What it changed, as it was before, so that undo restores it byte by byte.
    sa.Column("before", JsonText),
    sa.Column("gates", JsonText),
    # Quicker than a quarter of the time that reading takes.
    sa.Column("quick", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("opened_at", Instant),
    sa.Column("decided_at", Instant, nullable=False),
    sa.Column("undone_at", Instant),
    sa.Column("undone_by", sa.Text),
    sa.CheckConstraint(one_of("verb", ("approve", "edit", "send_back", "reject", "later")), name="verb_known"),
    sa.CheckConstraint("(undone_at IS NULL) = (undone_by IS NULL)", name="undone_by_whom"),
    sa.CheckConstraint("(task_id IS NULL) = (version IS NULL)", name="version_of_a_task"),
    sa.CheckConstraint("item IS NULL OR NOT final", name="final_is_of_drafts"),
    sa.CheckConstraint("item IS NOT NULL OR task_id IS NOT NULL", name="about_something"),
    sa.Index("ix_decisions_task", "task_id", "version", "decided_at"),
    sa.Index("ix_decisions_time", "decided_at"),
)
sa.Index(
    "ix_decisions_item", decisions.c.item,
    sqlite_where=decisions.c.item.is_not(None), postgresql_where=decisions.c.item.is_not(None),
)  # fmt: skip
sa.Index(
    "ix_decisions_one_stands", decisions.c.task_id, decisions.c.version, unique=True,
    sqlite_where=sa.text("final AND undone_at IS NULL"), postgresql_where=sa.text("final AND undone_at IS NULL"),
)  # fmt: skip

releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("night", sa.Text),
    sa.Column("connector", sa.Text, nullable=False),
    sa.Column("target", JsonText, nullable=False),
    # What makes it the same thing at the other side: a slug, a path, a row's key.
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("holder", sa.Text),
    sa.Column("held_until", Instant),
    sa.Column("next_at", Instant),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    # Where it is now, and what was there before, so that it can be taken back.
    sa.Column("receipt", JsonText),
    sa.Column("before", JsonText),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("task_id", "version", "connector", "key"),
    sa.CheckConstraint(one_of("state", RELEASE_STATES), name="state_known"),
    sa.CheckConstraint("state NOT IN ('done', 'taken_back') OR receipt IS NOT NULL", name="done_has_a_receipt"),
    sa.CheckConstraint("(holder IS NULL) = (held_until IS NULL)", name="held_until_when"),
    sa.Index("ix_releases_night", "night", "state"),
)
sa.Index(
    "ix_releases_due", releases.c.next_at,
    sqlite_where=releases.c.ended_at.is_(None), postgresql_where=releases.c.ended_at.is_(None),
)  # fmt: skip

approval_links = sa.Table(
    "approval_links",
    metadata,
    # The hash of 32 random bytes that only the link carries.
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("payload_hash", sa.Text, nullable=False),
    sa.Column("approver", sa.Text, sa.ForeignKey("users.id"), nullable=False),
    sa.Column("verbs", JsonText, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("used_at", Instant),
    sa.Column("revoked_at", Instant),
    sa.Index("ix_approval_links_item", "task_id", "version"),
)

lessons = sa.Table(
    "lessons",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("evidence", JsonText, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("proposed_at", Instant, nullable=False),
    sa.Column("decided_at", Instant),
    sa.Column("decided_by", sa.Text),
    sa.CheckConstraint(one_of("status", ("proposed", "accepted", "refused")), name="status_known"),
    sa.CheckConstraint("(status = 'proposed') = (decided_at IS NULL)", name="decided_when"),
    sa.UniqueConstraint("playbook", "text"),
)
