"""The catalog of most tests: SQLite and a warehouse in one folder."""

from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from support.tables.quick_catalogs import use_quick_catalogs
from support.tables.quick_commits import use_quick_commits

__all__ = ["open_sql_catalog", "sql_properties"]

use_quick_catalogs()
use_quick_commits()


def sql_properties(folder: Path) -> dict[str, str]:
    """The properties that open it, in PyIceberg, a pipeline file or a connection of Airflow."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def open_sql_catalog(name: str, folder: Path) -> SqlCatalog:
    """The catalog under a name: the rows of a SQL catalog are keyed by it."""
    return SqlCatalog(name, **sql_properties(folder))
