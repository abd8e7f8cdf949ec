"""Putting legs on DBOS's queue from any process, inside the caller's own transaction."""

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:  # importing dbos takes a third of a second, which the command line need not pay
    from dbos import DBOSClient

APP = "nightdesk"
QUEUE = "legs"
LEG = "leg"
# DBOS recovers only what carries its own version. Raise this only when old queue entries can no longer be run.
COMPATIBILITY = "1"

# One priority number orders the queue: the class P0..P3 first, then the fair rank within it.
_RANKS = 1 << 28


class Dispatcher:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client: DBOSClient | None = None

    def enqueue(
        self, conn: sa.Connection, task_id: str, leg: int, *, priority: int, rank: int, delay_seconds: float = 0
    ) -> None:
        """The leg will be started after the transaction commits, at once or after the delay."""
        from dbos import EnqueueOptions

        options = EnqueueOptions(
            workflow_name=LEG,
            queue_name=QUEUE,
            workflow_id=f"{task_id}:{leg}",
            app_version=COMPATIBILITY,
            priority=min(priority, 3) * _RANKS + min(rank, _RANKS - 1) + 1,
        )
        if delay_seconds > 0:
            options["delay_seconds"] = delay_seconds
        self.client.enqueue_in_transaction(conn, options, task_id, leg)

    @property
    def client(self) -> "DBOSClient":
        if self._client is None:
            from dbos import DBOSClient, DBOSPortableJSONSerializer

            from nightdesk.engine.safety import quiet_dbos, refuse_pickle

            quiet_dbos()
            refuse_pickle()
            self._client = DBOSClient(
                system_database_url=self._url,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APP,
                retry_connection_errors=False,
                sys_db_idle_transaction_timeout_sec=5,
                lazy=True,
            )
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.destroy()
            self._client = None


def prepare(url: str) -> None:
    """Create or update DBOS's own tables."""
    from dbos import DBOS

    from nightdesk.engine.safety import quiet_dbos, refuse_pickle

    quiet_dbos()
    refuse_pickle()
    DBOS.migrate(url)
