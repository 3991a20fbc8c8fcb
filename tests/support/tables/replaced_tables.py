"""Tables that another table of the same name replaced, some times."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from support.tables.planning_tables import edit_metadata, make_catalog

__all__ = ["table_of_schemas"]


def table_of_schemas(folder: Path, *schemas: Mapping[int, IcebergType]) -> tuple[Table, list[int]]:
    """A table with a snapshot of each schema, told by the types of its field ids; no snapshot has a parent."""
    table = make_catalog(folder).create_table("db.events", pa.schema([("id", pa.int64())]))
    for _ in schemas:
        table.append(pa.table({"id": [1]}))
    made = [
        Schema(*(NestedField(field_id, f"c{field_id}", kind) for field_id, kind in fields.items()), schema_id=schema_id)
        for schema_id, fields in enumerate(schemas)
    ]
    snapshots = [
        snapshot.model_copy(update={"schema_id": number, "parent_snapshot_id": None})
        for number, snapshot in enumerate(table.metadata.snapshots)
    ]
    edit_metadata(table, schemas=made, snapshots=snapshots)
    return table, [snapshot.snapshot_id for snapshot in snapshots]
