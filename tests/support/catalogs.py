"""The catalog of most tests: SQLite and a warehouse in one folder."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from pyiceberg.catalog import sql
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.metadata import TableMetadataCommonFields
from sqlalchemy.engine import Dialect, Engine

__all__ = ["open_sql_catalog", "sql_properties"]


def sql_properties(folder: Path) -> dict[str, str]:
    """The properties that open it, in PyIceberg, a pipeline file or a connection of Airflow."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def open_sql_catalog(name: str, folder: Path) -> SqlCatalog:
    """The catalog under a name: the rows of a SQL catalog are keyed by it."""
    return SqlCatalog(name, **sql_properties(folder))


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


def use_quick_commits() -> None:
    """Makes a transaction of this process copy the lists and mappings of a table's metadata, not what they hold.

    PyIceberg copies all of it whenever a transaction looks at it: a fifth of the time of tests that write tables.
    Schemas, snapshots and the like are frozen models, so a list of the same ones is as good as a list of copies.
    """
    TableMetadataCommonFields.__deepcopy__ = _copied  # type: ignore[assignment, method-assign]


def _copied(metadata: TableMetadataCommonFields, memo: dict[int, Any] | None = None) -> TableMetadataCommonFields:
    held = {name: value.copy() if isinstance(value, dict | list) else value for name, value in metadata}
    return metadata.model_copy(update=held)


use_quick_catalogs()
use_quick_commits()
