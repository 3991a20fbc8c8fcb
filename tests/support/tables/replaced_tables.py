"""Tables that another table of the same name replaced, some times."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from support.tables.planning_tables import edit_metadata, make_catalog

__all__ = ["table_of_schemas"]


def table_of_schemas(
    folder: Path, *schemas: Mapping[int, IcebergType], defaults: Sequence[Mapping[int, Any]] = ()
) -> tuple[Table, list[int]]:
    """A table with a snapshot of each schema, told by the types of its field ids; no snapshot has a parent.

    Args:
        folder: of its catalog; made if it is missing.
        schemas: the types of the columns, by field id.
        defaults: of each schema, the initial defaults of columns by field id.
    """
    folder.mkdir(exist_ok=True)
    table = make_catalog(folder).create_table("db.events", pa.schema([("id", pa.int64())]))
    for _ in schemas:
        table.append(pa.table({"id": [1]}))
    made = [
        Schema(
            *(
                NestedField(field_id, f"c{field_id}", kind, required=False, initial_default=default.get(field_id))
                for field_id, kind in fields.items()
            ),
            schema_id=schema_id,
        )
        for schema_id, (fields, default) in enumerate(zip(schemas, defaults or [{}] * len(schemas), strict=True))
    ]
    snapshots = [
        snapshot.model_copy(update={"schema_id": number, "parent_snapshot_id": None})
        for number, snapshot in enumerate(table.metadata.snapshots)
    ]
    edit_metadata(table, schemas=made, snapshots=snapshots)
    return table, [snapshot.snapshot_id for snapshot in snapshots]
