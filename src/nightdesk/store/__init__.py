"""The only door to the database.

Promises: one schema on SQLite and Postgres; a transaction is whole or absent; an accepted write is on
disk (SQLite keeps its rollback journal and synchronous=FULL). Rows that the state machine does not allow
are refused by the schema itself.

Never: decides anything. Rules live in the rooms above; here are tables, transactions and migrations.
The store is synchronous; async code steps into it through `Database.commit`, which groups the waiting
writes of many legs into one transaction.
"""

from nightdesk.store.asking import batches, breakers, budgets, calls, rate_buckets, shapes
from nightdesk.store.database import Database, is_outage, open_database, upsert
from nightdesk.store.desk import approval_links, decisions, lessons, lots, releases, reviews, sessions, users
from nightdesk.store.migrate import migrate, pending_migrations
from nightdesk.store.nights import alerts, draft_marks, drafts, nights, plan_items, trials
from nightdesk.store.tables import events, metadata, notices, requests, runs, slots, switches, tasks, tokens

__all__ = [
    "Database",
    "alerts",
    "approval_links",
    "batches",
    "breakers",
    "budgets",
    "calls",
    "decisions",
    "draft_marks",
    "drafts",
    "events",
    "is_outage",
    "lessons",
    "lots",
    "metadata",
    "migrate",
    "nights",
    "notices",
    "open_database",
    "pending_migrations",
    "plan_items",
    "rate_buckets",
    "releases",
    "requests",
    "reviews",
    "runs",
    "sessions",
    "shapes",
    "slots",
    "switches",
    "tasks",
    "tokens",
    "trials",
    "upsert",
    "users",
]
