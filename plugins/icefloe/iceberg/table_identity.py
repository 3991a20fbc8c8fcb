"""The id of a table, by which a replaced table is recognized."""

from pyiceberg.table import Table

__all__ = ["table_uuid"]


def table_uuid(table: Table) -> str | None:
    """The uuid in a table's metadata; None if a V1 writer left it out, because each load then makes up another one."""
    is_written = "table_uuid" in table.metadata.model_fields_set
    return str(table.metadata.table_uuid) if is_written else None
