"""Whether a table is the table it was."""

from pyiceberg.table import Table

__all__ = ["table_uuid"]


def table_uuid(table: Table) -> str | None:
    """The uuid in a table's metadata; None where a V1 writer left it out, so that each load makes another up."""
    is_written = "table_uuid" in table.metadata.model_fields_set
    return str(table.metadata.table_uuid) if is_written else None
