"""Catalogs on SQLite that do not write the SQL of each statement again."""

from functools import cache
from typing import Any, Final

import sqlalchemy
from pyiceberg.catalog import sql
from sqlalchemy.engine import Dialect, Engine

__all__ = ["use_quick_catalogs"]

_STATEMENTS: Final[dict[Any, Any]] = {}
"""The SQL of the statements that catalogs of this process have used; there are some 20."""


def use_quick_catalogs() -> None:
    """Makes the SQLite catalogs of this process share the SQL of their statements.

    SQLAlchemy keeps it with the engine of a catalog. A test opens a new catalog for each phase of a batch, so a sixth
    of the time of a batch went into statements that another engine had written already.
    """
    sql.create_engine = _create_engine  # type: ignore[attr-defined]


def _create_engine(url: Any, **options: Any) -> Engine:
    engine = sqlalchemy.create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        # A statement is found again for the same dialect only.
        engine.dialect = _dialect()
        engine.update_execution_options(compiled_cache=_STATEMENTS)
    return engine


@cache
def _dialect() -> Dialect:
    """A dialect that knows its database, which it asks at its first connection."""
    engine = sqlalchemy.create_engine("sqlite://")
    engine.connect().close()
    return engine.dialect
