"""PyIceberg's table, under a name that the rest of the library may import, with its name and its id."""

from pyiceberg.io import FileIO
from pyiceberg.table import Table

__all__ = ["FileIO", "Table", "table_name", "table_uuid"]


def table_name(table: Table) -> str:
    """Namespace and name, dotted, without the catalog."""
    return ".".join(table.name())


def table_uuid(table: Table) -> str | None:
    """The uuid in a table's metadata; None if a V1 writer left it out, because each load then makes up another one."""
    is_written = "table_uuid" in table.metadata.model_fields_set
    return str(table.metadata.table_uuid) if is_written else None
