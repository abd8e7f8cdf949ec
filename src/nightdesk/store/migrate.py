"""Brings a database to the schema of this version of the house."""

from pathlib import Path

import sqlalchemy as sa

from nightdesk.store.database import Database

_MIGRATIONS = Path(__file__).with_name("migrations")
# The newest migration; a test holds it against the folder.
HEAD = "0004"


def pending_migrations(database: Database) -> bool:
    """Whether the database lacks a migration. Cheap: one small query, and Alembic is not imported."""
    with database.read() as conn:
        if not sa.inspect(conn).has_table("alembic_version"):
            return True
        return conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() != HEAD


def migrate(database: Database) -> None:
    """Apply what is missing, once, however many processes start together."""
    if not pending_migrations(database):
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    with database.write() as conn:
        database.lock(conn, "nightdesk-migrate")
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
