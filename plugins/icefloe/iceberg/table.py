"""PyIceberg's table, under a name that the library may import; its name, id and ancestry."""

from collections.abc import Iterator, Mapping

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

__all__ = ["FileIO", "Table", "table_uuid"]


def ancestry(snapshots: Mapping[int, Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first, as far as they exist."""
    # Writers may have formed a circle: the walk ends before a snapshot would come again.
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in snapshots and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield snapshots[snapshot_id]
        snapshot_id = snapshots[snapshot_id].parent_snapshot_id


def table_name(table: Table) -> str:
    """Namespace and name, dotted, without the catalog."""
    return ".".join(table.name())


def table_uuid(table: Table) -> str | None:
    """The uuid; None if a V1 writer left it out: each load makes up another one."""
    is_written = "table_uuid" in table.metadata.model_fields_set
    return str(table.metadata.table_uuid) if is_written else None
