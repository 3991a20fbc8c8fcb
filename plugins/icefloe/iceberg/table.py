"""PyIceberg's table, under a name that the library may import; its name and id."""

from pyiceberg.table import Table

__all__ = ["Table"]


def table_name(table: Table) -> str:
    """Namespace and name, dotted, without the catalog."""
    return ".".join(table.name())


def table_uuid(table: Table) -> str | None:
    """The uuid; None if a V1 writer left it out: each load makes up another one."""
    is_written = "table_uuid" in table.metadata.model_fields_set
    return str(table.metadata.table_uuid) if is_written else None
