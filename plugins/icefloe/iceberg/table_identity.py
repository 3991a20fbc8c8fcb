"""Whether a table is the table it was."""

from pyiceberg.table import Table

__all__ = ["table_uuid"]


def table_uuid(table: Table) -> str | None:
    """The table's uuid; None for a V1 table, where PyIceberg makes one up when the metadata has none."""
    return None if table.metadata.format_version == 1 else str(table.metadata.table_uuid)
