"""Identities of every kind: which deletes and inserts of a step are one update, against the states that Iceberg reads.

`test_row_ids` has the row ids of V3 tables.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from icefloe.api import read_changes
from icefloe.errors import TerminalError
from spark.range_check import changes_of, check_ranges
from spark.test_delivered_deletes import delivered, pipeline_of
from support.pipelines.workspace import icefloe
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import typed_changes_of
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
NAN = float("nan")
KEYS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, True),
    "int": (0, -(2**31), 2**31 - 1),
    "long": (0, -(2**63), 2**63 - 1),
    "float": (0.0, NAN, float("-inf")),
    "double": (-0.0, NAN, 1e300),
    "decimal(38, 10)": (Decimal("0"), Decimal("-1.5"), Decimal("9" * 28 + "." + "9" * 10)),
    "date": (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    "time": (time(0), time(12), time(23, 59, 59, 999999)),
    "timestamp": (datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2261, 1, 1)),
    "timestamptz": tuple(datetime(year, 6, 1, tzinfo=UTC) for year in (1970, 1900, 2200)),
    "string": ("", "a", "\U0001f600" * 9),
    "uuid": (UUID(int=0), UUID(int=7), UUID(int=2**128 - 1)),
    "fixed[3]": (b"\0\0\0", b"abc", b"\xff\0\xff"),
    "binary": (b"", b"\0", b"\xff" * 20),
}


def types_of(changes: pa.Table) -> dict[str, int]:
    return dict(Counter(changes["_change_type"].to_pylist()))


def last_changes(table: SparkTable, **options: Any) -> pa.Table:
    return changes_of(table, table.snapshot_ids()[-2], **options)


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_with_duplicates_and_nulls(create_table: CreateTable, kind: str) -> None:
    """Rewritten files and deletes by position; -0.0 is 0.0, and NaN and null are keys like others."""
    table = create_table("v int, w int")
    java = JavaWriters(table)
    with java.schema() as schema:
        schema.addColumn("k", java.type(kind))
    first, second, third = KEYS[kind]
    negative = -0.0 if kind in ("float", "double") else first
    [old] = java.data_files([(0, 0, first), (1, 0, first), (0, 0, second), (0, 0, None), (1, 0, None), (2, 0, third)])
    [stays] = java.data_files([(0, 0, first), (0, 0, None), (8, 0, second)])
    java.append([old, stays])
    rewritten = [(0, 0, negative), (5, 0, first), (0, 1, second), (0, 0, None), (6, 0, None), (7, 0, None)]
    [new] = java.data_files(rewritten)
    java.overwrite(removed=[old], added=[new])
    changed = java.data_files([(9, 9, first), (9, 9, second), (9, 9, None), (9, 9, None)])
    java.row_delta(rows=changed, deletes=java.position_deletes({new: [0, 2, 3], stays: [1, 2]}))
    check_ranges(table, identifier_columns=["k"], state=lambda snapshot_id, _: java.rows_at(snapshot_id))
    assert types_of(changes_of(table, table.snapshot_ids()[0], identifier_columns=["k"]))["UPDATE_AFTER"] >= 5


@pytest.mark.parametrize("kind", ["long", "string", "uuid", "binary", "double"])
def test_keys_inside_structs(create_table: CreateTable, kind: str) -> None:
    table = create_table("v int", format_version=3)
    java = JavaWriters(table)
    iceberg = table.lab.spark._jvm.org.apache.iceberg.types.Types
    nested = iceberg.NestedField.optional(100, "k", java.type(kind))
    fields = table.lab.spark.sparkContext._gateway.new_array(iceberg.NestedField, 1)
    fields[0] = nested
    with java.schema() as schema:
        schema.addColumn("s", iceberg.StructType.of(fields))
    first, second, third = KEYS[kind]
    [old] = java.data_files([(0, {"k": first}), (0, {"k": second}), (0, {"k": None}), (0, None), (1, {"k": third})])
    java.append([old])
    [new] = java.data_files([(1, {"k": first}), (0, {"k": second}), (3, {"k": None}), (1, {"k": third}), (4, None)])
    java.overwrite(removed=[old], added=[new])
    found = last_changes(table, identifier_columns=["s.k"])
    # A null struct has a null key, as a struct with a null has.
    assert types_of(found) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    assert types_of(last_changes(table, identifier_columns=["s.k"], columns=["v"])) == types_of(found)
    assert types_of(last_changes(table, identifier_columns=["s.k", "v"])) == {"DELETE": 3, "INSERT": 3}


@MODES
def test_a_row_that_moves_to_another_partition_is_one_update(create_table: CreateTable, mode: str) -> None:
    table = create_table("id bigint, region string, v int", mode=mode, partitioned_by="region, bucket(4, id)")
    table.sql("INSERT INTO {table} SELECT id, concat('r', id % 3), 0 FROM range(12)")
    table.sql("UPDATE {table} SET region = 'r9' WHERE id IN (1, 2, 3)")
    found = last_changes(table, identifier_columns=["id"])
    assert types_of(found) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    table.sql("UPDATE {table} SET id = id + 100 WHERE id IN (3, 4)")
    assert types_of(last_changes(table, identifier_columns=["id"])) == {"DELETE": 2, "INSERT": 2}
    assert types_of(last_changes(table, identifier_columns=["v", "region"])) == {"UPDATE_BEFORE": 2, "UPDATE_AFTER": 2}
    java = JavaWriters(table)
    check_ranges(table, state=lambda snapshot_id, _: java.rows_at(snapshot_id))


@MODES
@pytest.mark.parametrize("format_version", [2, 3])
def test_the_table_s_identifier_fields_come_before_row_ids(
    create_table: CreateTable, mode: str, format_version: int
) -> None:
    table = create_table(
        "a int NOT NULL, b string NOT NULL, v int",
        mode=mode, format_version=format_version, identifier_fields=["b", "a"],
    )  # fmt: skip
    table.sql("INSERT INTO {table} VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0), (2, 'x', 0)")
    table.sql("UPDATE {table} SET v = 1 WHERE b = 'x'")
    assert types_of(last_changes(table)) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    table.sql("UPDATE {table} SET a = 3 WHERE b = 'y'")
    assert types_of(last_changes(table)) == {"DELETE": 1, "INSERT": 1}
    assert types_of(last_changes(table, identifier_columns=["b"])) == {"UPDATE_BEFORE": 1, "UPDATE_AFTER": 1}
    check_ranges(table, identifier_columns=["a", "b"])


@pytest.mark.parametrize("format_version", [1, 2])
def test_without_any_there_are_no_updates(create_table: CreateTable, format_version: int) -> None:
    table = create_table("id bigint, v int", format_version=format_version)
    table.sql("INSERT INTO {table} VALUES (1, 0), (1, 0), (2, 0)")
    table.sql("UPDATE {table} SET v = 1 WHERE id = 1")
    assert typed_changes_of(last_changes(table)) == Counter({("DELETE", 0, 1, 0): 2, ("INSERT", 0, 1, 1): 2})


@pytest.mark.parametrize("columns", [["ids"], ["v"], ["tags"], ["id", "id"], ["s"]])
def test_columns_that_cannot_identify_rows_are_refused(create_table: CreateTable, columns: Sequence[str]) -> None:
    table = create_table("id bigint, tags array<string>, s struct<v: int>")
    table.sql("INSERT INTO {table} VALUES (1, array('a'), named_struct('v', 1))")
    with pytest.raises(TerminalError, match=r"^identifier_columns does not fit table .*"):
        read_changes(table.load(), identifier_columns=columns)


@MODES
def test_a_pipeline_with_row_ids_is_followed_and_verified(create_table: CreateTable, tmp_path: Path, mode: str) -> None:
    table = create_table("id bigint, v int, note string", mode=mode, format_version=3, partitioned_by="bucket(4, id)")
    table.sql("INSERT INTO {table} SELECT id, 0, 'n' FROM range(40)")
    shuffle = {"map_task_bytes": 1, "partitions": 8, "target_size_bytes": 1}
    pipeline = pipeline_of(table, tmp_path, columns=["v", "id"], filter="id < 1000", shuffle=shuffle)
    assert icefloe("run", pipeline).document["insert"] == 40
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (1, 2, 3)")
    table.sql("UPDATE {table} SET note = 'x' WHERE id > 30")
    table.sql("UPDATE {table} SET id = id + 1000 WHERE id IN (8, 9)")
    table.sql("INSERT OVERWRITE {table} SELECT * FROM {table}")
    done = icefloe("run", pipeline)
    assert (done.code, done.err) == (0, "")
    assert [done.document[kind] for kind in ("insert", "delete", "update_before", "update_after")] == [0, 2, 3, 3]
    gone = {(number, 0): -1 for number in (1, 2, 3, 8, 9)}
    assert delivered(tmp_path, 1) == {**gone, **{(number, 1): 1 for number in (1, 2, 3)}}
    assert icefloe("verify", pipeline).code == 0
