"""How errors, warnings and documents call a table."""

from pyiceberg.table import Table

__all__ = ["table_name"]


def table_name(table: Table) -> str:
    """Namespace and name, dotted, without the catalog."""
    return ".".join(table.name())
