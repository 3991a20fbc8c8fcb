import json
import math
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
)

from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.schemas.table_schema import TableSchema, require_comparable_states
from support.tables.replaced_tables import table_of_schemas
from support.tables.written_tables import create_table

PLACE = StructType(NestedField(4, "city", StringType(), required=True))
COLUMNS = Schema(
    NestedField(1, "name", StringType()),
    NestedField(2, "id", LongType(), required=True),
    NestedField(3, "place", PLACE, required=True),
    NestedField(5, "day", DateType(), initial_default="2024-02-29"),
    identifier_field_ids=[4, 2],
)


def evolved(folder: Path) -> Table:
    """Two snapshots with a schema each, and a third schema that no snapshot has."""
    table = create_table(folder, Schema(NestedField(1, "a", LongType())))
    table.append(table.scan().to_arrow())
    with table.update_schema() as update:
        update.add_column("b", LongType())
    table.append(table.scan().to_arrow())
    with table.update_schema() as update:
        update.add_column("c", LongType())
    return table


def edited(table: Table, **changes: Any) -> TableMetadata:
    document = json.loads(table.metadata.model_dump_json())
    document["snapshots"][0] |= changes
    for key in [key for key, value in document["snapshots"][0].items() if value is None]:
        del document["snapshots"][0][key]
    return TableMetadataUtil.parse_obj(document)


def test_a_snapshot_has_the_schema_it_was_written_with_and_otherwise_the_current_one(tmp_path: Path) -> None:
    table = evolved(tmp_path)
    first, second = table.snapshots()

    def names(metadata: TableMetadata, snapshot_id: int | None) -> list[str]:
        return TableSchema.at(metadata, snapshot_id).columns.column_names

    assert [names(table.metadata, each.snapshot_id) for each in (first, second)] == [["a"], ["a", "b"]]
    assert names(table.metadata, None) == ["a", "b", "c"]
    assert names(edited(table, **{"schema-id": None}), first.snapshot_id) == ["a", "b", "c"]
    with pytest.raises(TerminalError, match="snapshot 7 is not in the metadata"):
        names(table.metadata, 7)
    with pytest.raises(TerminalError, match="schema 99 of snapshot"):
        names(edited(table, **{"schema-id": 99}), first.snapshot_id)


@pytest.mark.parametrize("mapping", [None, COLUMNS.name_mapping])
def test_a_schema_survives_the_plan(mapping: Any) -> None:
    schema = TableSchema.of(COLUMNS, mapping)
    document = json.loads(json.dumps([schema.schema_json, schema.name_mapping_json]))
    again = TableSchema.from_json(document[0], name_mapping=document[1])
    assert (again.columns, again.name_mapping, again.arrow) == (schema.columns, schema.name_mapping, schema.arrow)
    assert again.columns.find_field("day").initial_default == COLUMNS.find_field("day").initial_default
    assert again.identifier_columns == schema.identifier_columns == ("id", "place.city")


@pytest.mark.parametrize("default", [math.inf, -math.inf, math.nan, -0.0, 1.5])
@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_a_default_that_json_has_no_number_for_survives_the_plan(kind: PrimitiveType, default: float) -> None:
    inner = StructType(NestedField(2, "x", kind, initial_default=default))
    schema = TableSchema.of(Schema(NestedField(1, "a", kind, initial_default=default), NestedField(3, "s", inner)))
    document = json.loads(json.dumps(schema.schema_json, allow_nan=False))
    again = TableSchema.from_json(document, name_mapping=None)
    assert [repr(again.columns.find_field(name).initial_default) for name in ("a", "s.x")] == [repr(default)] * 2


def test_columns_are_as_wide_as_at_the_start_of_the_range(tmp_path: Path) -> None:
    place = StructType(NestedField(4, "city", StringType(), required=True))
    table = create_table(
        tmp_path,
        Schema(
            NestedField(1, "id", LongType(), required=True), NestedField(2, "x", LongType(), required=True),
            NestedField(3, "place", place, required=True), NestedField(5, "y", IntegerType(), required=True),
            NestedField(6, "f", ListType(7, FloatType(), element_required=True)),
            NestedField(8, "m", MapType(9, StringType(), 10, DecimalType(9, 2), value_required=True)),
        ),
    )  # fmt: skip
    table.append(table.scan().to_arrow())
    with table.update_schema() as update:
        update.make_column_optional("x").make_column_optional(("place", "city")).rename_column("y", "z")
        update.update_column("y", LongType()).update_column(("f", "element"), DoubleType())
        update.update_column(("m", "value"), DecimalType(20, 2))
    table.append(table.scan().to_arrow())
    first, last = table.metadata.snapshots
    narrow = TableSchema.at(table.metadata, first.snapshot_id)
    assert narrow.columns == table.metadata.schemas[0]
    schema = TableSchema.at(table.metadata, first.snapshot_id, after_snapshot_id=last.snapshot_id)
    assert schema.arrow.names == narrow.arrow.names
    assert schema.arrow.field("y").type == pa.int64()
    assert schema.arrow.field("f").type.value_type == pa.float64()
    assert schema.arrow.field("m").type.item_type == pa.decimal128(20, 2)
    assert [field.nullable for field in schema.arrow] == [False, True, False, False, True, True]
    assert schema.arrow.field("place").type.field("city").nullable
    assert TableSchema.from_json(schema.schema_json, name_mapping=None).arrow == schema.arrow


def test_a_required_column_that_was_dropped_is_optional_after_a_rollback(tmp_path: Path) -> None:
    columns = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "k", LongType(), required=True))
    table = create_table(tmp_path, columns)
    table.append(table.scan().to_arrow())
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("k").add_column("n", LongType(), required=True)
    table.append(table.scan().to_arrow())
    first, last = table.metadata.snapshots
    back = TableSchema.at(table.metadata, first.snapshot_id, after_snapshot_id=last.snapshot_id)
    assert [(field.name, field.nullable) for field in back.arrow] == [("id", False), ("k", True)]
    # The rows from before have the default of a column that was added, or the table is refused.
    onward = TableSchema.at(table.metadata, last.snapshot_id, after_snapshot_id=first.snapshot_id)
    assert [(field.name, field.nullable) for field in onward.arrow] == [("id", False), ("n", False)]


def test_identifier_fields_stay_required(tmp_path: Path) -> None:
    place = StructType(NestedField(4, "city", StringType(), required=False), NestedField(5, "x", StringType()))
    table = create_table(tmp_path, Schema(NestedField(3, "place", place, required=False)))
    table.append(table.scan().to_arrow())
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("place", required=True).update_column(("place", "city"), required=True)
        update.update_column(("place", "x"), required=True).set_identifier_fields("place.city")
    table.append(table.scan().to_arrow())
    schema = TableSchema.at(table.metadata, table.metadata.current_snapshot_id)
    assert schema.identifier_columns == ("place.city",)
    assert not schema.arrow.field("place").nullable
    inner = schema.arrow.field("place").type
    assert (inner.field("city").nullable, inner.field("x").nullable) == (False, True)


def test_columns_and_fields_inside_have_ids_and_perhaps_values_in_older_files() -> None:
    schema = TableSchema.of(
        Schema(
            NestedField(1, "day", DateType(), initial_default="2024-02-29"),
            NestedField(2, "place", StructType(NestedField(3, "size", LongType(), initial_default=7))),
            NestedField(4, "words", ListType(5, StructType(NestedField(6, "word", StringType())))),
            NestedField(7, "counts", MapType(8, StringType(), 9, LongType())),
        )
    )
    assert schema.field_ids == {
        "day": 1, "place": 2, "place.size": 3, "words": 4, "words.element": 5, "words.element.word": 6, "counts": 7,
        "counts.key": 8, "counts.value": 9,
    }  # fmt: skip
    assert schema.defaulted == {"day", "place.size"}


STRUCT = StructType(NestedField(10, "a", IntegerType()), NestedField(11, "b", StringType()))
PROMOTED = StructType(NestedField(10, "a", LongType()), NestedField(12, "c", StringType()))
CHANGED = StructType(NestedField(10, "a", StringType()))


NAN, DAY = float("nan"), date(2024, 2, 29)


@pytest.mark.parametrize(
    ("was", "now", "defaults", "differs"),
    [
        ({1: IntegerType()}, {1: IntegerType(), 2: StringType()}, (), None),
        ({1: IntegerType()}, {1: LongType()}, (), None),
        ({1: LongType()}, {1: IntegerType()}, (), None),
        ({1: STRUCT}, {1: PROMOTED}, (), None),
        ({1: StringType()}, {2: IntegerType()}, (), None),
        ({1: IntegerType()}, {1: StringType()}, (), r"'c1' is string at snapshot \d+ and was int at snapshot"),
        ({1: STRUCT}, {1: StringType()}, (), "'c1' is string"),
        ({1: STRUCT}, {1: CHANGED}, (), r"'c1\.a' is string at snapshot \d+ and was int"),
        ({1: STRUCT}, {1: ListType(20, IntegerType())}, (), "'c1' is list<int>"),
        ({1: IntegerType()}, {1: IntegerType()}, (5, 5), None),
        ({1: IntegerType()}, {1: IntegerType()}, (5, 7), "'c1' is .*or has another initial default"),
        ({1: IntegerType()}, {1: IntegerType()}, (5, None), "'c1' is .*or has another initial default"),
        ({1: IntegerType()}, {1: IntegerType()}, (None, 5), "'c1' is .*or has another initial default"),
        ({1: DoubleType()}, {1: DoubleType()}, (NAN, NAN), None),
        ({1: DateType()}, {1: TimestampType()}, (DAY, datetime(2024, 2, 29)), None),
        ({1: TimestampType()}, {1: DateType()}, (datetime(2024, 2, 29), DAY), None),
    ],
    ids=str,
)
def test_states_compare_only_if_schema_evolution_leads_from_one_to_the_other(
    tmp_path: Path,
    was: Mapping[int, IcebergType],
    now: Mapping[int, IcebergType],
    defaults: tuple[Any, ...],
    differs: str | None,
) -> None:
    given = {"defaults": ({1: defaults[0]}, {1: defaults[1]})} if defaults else {}
    table, (start, end) = table_of_schemas(tmp_path, was, now, **given)
    sentence = rf"^table db\.events was replaced by one with another schema: column {differs}"
    with nullcontext() if differs is None else pytest.raises(TerminalError, match=sentence):
        require_comparable_states(table.metadata, start, end, table="db.events")


@pytest.mark.parametrize(
    ("written", "first_row_id", "expected"),
    [
        ([7, None, 3], 1000, [7, 1005, 3]),
        ([7, 8, 3], 1000, [7, 8, 3]),
        ([None, 8, None], None, [None, None, None]),
        ([None, None, None], 0, [2, 5, 6]),
    ],
)
def test_a_row_without_an_id_has_that_of_its_position(
    written: list[int | None], first_row_id: int | None, expected: list[int | None]
) -> None:
    schema = TableSchema.of(COLUMNS, COLUMNS.name_mapping).with_row_id()
    assert schema.arrow.names[-1] == TableSchema.ROW_ID
    assert schema.columns.find_field(TableSchema.ROW_ID).field_id == 2**31 - 1 - 107
    assert schema.name_mapping == COLUMNS.name_mapping
    file = DataFile(
        path="f", file_format="PARQUET", spec_id=0, record_count=7, file_size_bytes=1, first_row_id=first_row_id
    )
    found = file.inherited_row_ids(pa.array(written, pa.int64()), np.array([2, 5, 6]))
    assert (found.to_pylist(), found.type) == (expected, pa.int64())
