"""The name of a table in errors, warnings and documents."""

from pyiceberg.table import Table

__all__ = ["table_name"]


def table_name(table: Table) -> str:
    """Namespace and name, dotted, without the catalog."""
    return ".".join(table.name())
