"""Alembic's entry point: runs the migrations on the connection that `store.migrate` hands over."""

from alembic import context

from nightdesk.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=context.config.attributes["connection"].dialect.name == "sqlite",
    transactional_ddl=True,
    transaction_per_migration=False,
    compare_type=False,
)
with context.begin_transaction():
    context.run_migrations()
