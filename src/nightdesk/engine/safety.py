"""What DBOS must not do here: unpickle rows, or write its log past ours."""

import logging
from typing import Any, NoReturn

from dbos._serialization import DefaultSerializer


class PickleRefused(RuntimeError):
    """A database row claims to be pickled Python; reading it could run code, so it is refused."""


def refuse_pickle() -> None:
    """DBOS unpickles any row labelled `py_pickle`, whatever serializer is configured. Make that fail closed."""

    def refuse(self: Any, serialized_data: str) -> NoReturn:
        raise PickleRefused("A row of the queue is labelled py_pickle. Nightdesk stores JSON only; look who wrote it.")

    DefaultSerializer.deserialize = refuse  # type: ignore[assignment, method-assign]


def quiet_dbos() -> None:
    """DBOS logs through the logger `dbos`; let its warnings through to ours and drop the rest."""
    logging.getLogger("dbos").setLevel(logging.WARNING)
