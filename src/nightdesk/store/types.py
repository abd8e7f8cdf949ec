"""Column types that read the same on SQLite and Postgres: moments, money, JSON."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

_MICRO = Decimal("0.000001")


class Instant(TypeDecorator[datetime]):
    """A moment in UTC: timestamptz on Postgres, sortable RFC 3339 text on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; the store takes moments, not wall-clock readings")
        moment = value.astimezone(UTC)
        return _as_text(moment) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)


class Money(TypeDecorator[Decimal]):
    """US dollars to a millionth: numeric on Postgres, text of a number on SQLite (SUM works on both)."""

    impl = sa.Numeric(18, 6)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.Numeric(18, 6))

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return format(value.quantize(_MICRO), "f") if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value).quantize(_MICRO)


class JsonText(TypeDecorator[Any]):
    """JSON: `json` on Postgres (so that SQL can look inside), text on SQLite (whose JSON functions read it)."""

    impl = sa.JSON(none_as_null=False)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.JSON(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if dialect.name != "sqlite" or value is None:
            return value
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return json.loads(value) if isinstance(value, str) and dialect.name == "sqlite" else value


def _as_text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
