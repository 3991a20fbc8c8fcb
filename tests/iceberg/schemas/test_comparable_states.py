from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from support.tables.planning_tables import edit_metadata, make_catalog


def table_of(folder: Path, *schemas: Mapping[int, IcebergType]) -> tuple[Table, list[int]]:
    """A table with a snapshot of each schema, told by the types of its field ids."""
    table = make_catalog(folder).create_table("db.events", pa.schema([("id", pa.int64())]))
    for _ in schemas:
        table.append(pa.table({"id": [1]}))
    made = [
        Schema(*(NestedField(field_id, f"c{field_id}", kind) for field_id, kind in fields.items()), schema_id=schema_id)
        for schema_id, fields in enumerate(schemas)
    ]
    snapshots = [s.model_copy(update={"schema_id": number}) for number, s in enumerate(table.metadata.snapshots)]
    edit_metadata(table, schemas=made, snapshots=snapshots)
    return table, [snapshot.snapshot_id for snapshot in snapshots]


STRUCT = StructType(NestedField(10, "a", IntegerType()), NestedField(11, "b", StringType()))
PROMOTED = StructType(NestedField(10, "a", LongType()), NestedField(12, "c", StringType()))
CHANGED = StructType(NestedField(10, "a", StringType()))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({1: IntegerType()}, {1: IntegerType(), 2: StringType()}),
        ({1: IntegerType()}, {1: LongType()}),
        ({1: LongType()}, {1: IntegerType()}),
        ({1: STRUCT}, {1: PROMOTED}),
        ({1: StringType()}, {2: IntegerType()}),
    ],
)
def test_columns_that_schema_evolution_can_lead_to_pass(
    tmp_path: Path, was: Mapping[int, IcebergType], now: Mapping[int, IcebergType]
) -> None:
    table, (start, end) = table_of(tmp_path, was, now)
    require_comparable_states(table.metadata, start, end, table="db.events")


@pytest.mark.parametrize(
    ("was", "now", "column"),
    [
        ({1: IntegerType()}, {1: StringType()}, r"'c1' is string at snapshot \d+ and was int at snapshot"),
        ({1: STRUCT}, {1: StringType()}, "'c1' is string"),
        ({1: STRUCT}, {1: CHANGED}, r"'c1\.a' is string at snapshot \d+ and was int"),
        ({1: STRUCT}, {1: ListType(20, IntegerType())}, "'c1' is list<int>"),
    ],
)
def test_a_column_that_became_something_else_is_named(
    tmp_path: Path, was: Mapping[int, IcebergType], now: Mapping[int, IcebergType], column: str
) -> None:
    table, (start, end) = table_of(tmp_path, was, now)
    with pytest.raises(
        TerminalError, match=rf"^table db\.events was replaced by one with another schema: column {column}"
    ):
        require_comparable_states(table.metadata, start, end, table="db.events")
