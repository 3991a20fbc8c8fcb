"""Equality deletes: every range of every history against the states that Spark reads."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import weights_of
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark

NAN = float("nan")


def delete(java: JavaWriters, columns: Sequence[str], *keys: Any, **options: Any) -> int:
    """One commit of one equality delete file; a key of one column need not be a tuple."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    return java.row_delta(deletes=java.equality_deletes(columns, rows, **options))


def test_null_keys_delete_nulls_and_nothing_else(create_table: CreateTable) -> None:
    table = create_table("a string, b int, c int")
    java = JavaWriters(table)
    rows = [(a, b, c) for c, (a, b) in enumerate((a, b) for a in ("x", "", None) for b in (0, 1, None))]
    java.append(java.data_files(rows))
    delete(java, ["a"], "x")
    delete(java, ["a", "b"], (None, 0), ("", None))
    java.append(java.data_files(rows))
    delete(java, ["a", "b"], (None, None))
    delete(java, ["b"], None)
    delete(java, ["a"], None)
    check_ranges(table, identifier_columns=["a", "b"])


def test_keys_of_every_type(create_table: CreateTable) -> None:
    columns = {
        "flag": ("boolean", [True, False]),
        "small": ("int", [-1, 2**31 - 1]),
        "big": ("bigint", [-(2**63), 2**53 + 1]),
        "price": ("decimal(38, 4)", [Decimal("-1.5"), Decimal("1.5000")]),
        "day": ("date", [date(1969, 12, 31), date(2024, 2, 29)]),
        "at": ("timestamp", [datetime(1969, 12, 31, 23, 59, 59, 1, UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
        "local": ("timestamp_ntz", [datetime(2024, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1)]),
        "name": ("string", ["ä", "a\u0308"]),
        "payload": ("binary", [b"", b"\x00\xff"]),
    }
    table = create_table("id bigint, " + ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items()))
    java = JavaWriters(table)
    keys = {name: values for name, (_, values) in columns.items()}
    java.append(java.data_files([{"id": n, name: keys[name][n % 2]} for n in range(4) for name in keys]))
    for number in (0, 1):
        deletes = [java.equality_deletes([name], [(keys[name][number],)]) for name in keys]
        last = java.row_delta(deletes=[file for [file] in deletes])
        java.append(java.data_files([{"id": 10 + number, name: keys[name][0]} for name in keys]))
    assert {row[0] for row in table.rows_at(last)} == {10}
    check_ranges(table)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_nan_and_negative_zero_keys_are_distinguished_as_in_java(create_table: CreateTable, kind: str) -> None:
    table = create_table(f"id bigint, x {kind}")
    java = JavaWriters(table)
    java.append(java.data_files([(1, NAN), (2, 0.0), (3, -0.0), (4, None), (5, 0.5)]))
    for key in (NAN, -0.0, 0.0, None, 0.5):
        delete(java, ["x"], key)
    check_ranges(table)


def test_keys_inside_structs(create_table: CreateTable) -> None:
    table = create_table("id bigint, place struct<city: string, at: struct<x: int, y: int>>")
    java = JavaWriters(table)
    places = [{"city": "b", "at": {"x": n, "y": -n}} for n in range(4)]
    java.append(java.data_files([*enumerate(places), (4, None), (5, {"city": None, "at": None})]))
    delete(java, ["place.at.x"], 1)
    delete(java, ["place.at.y", "id"], (-2, 2), (-3, 2))
    delete(java, ["place.at.x", "place.city"], (None, None))
    check_ranges(table)


def test_a_delete_of_one_partition_and_one_of_the_whole_table(create_table: CreateTable) -> None:
    table = create_table("id bigint, part string", partitioned_by="part")
    java = JavaWriters(table)
    left, right = java.data_files([(1, "left"), (2, "left"), (3, "left"), (1, "right"), (2, "right"), (3, "right")])
    java.append([left, right])
    delete(java, ["id"], 1, partition_of=left)
    with java.spec() as spec:
        spec.removeField("part")
    delete(java, ["id"], 2)
    java.append(java.data_files([(4, "left"), (3, "none")]))
    delete(java, ["id"], 3, partition_of=right)
    delete(java, ["id"], 3, 4)
    with java.spec() as spec:
        spec.addField(java.term("bucket", "id", 2))
    [bucket] = java.data_files([(4, "left")])
    java.append([bucket])
    delete(java, ["id"], 4, partition_of=bucket)
    assert table.rows_at(table.snapshot_ids()[-1]) == Counter([(1, "right")])
    check_ranges(table)


def test_void_partitions_are_no_partitions(create_table: CreateTable) -> None:
    table = create_table("id bigint, part string", partitioned_by="part", format_version=1)
    java = JavaWriters(table)
    java.append(java.data_files([(1, "left"), (2, "right")]))
    with java.spec() as spec:
        spec.removeField("part")
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '2')")
    java.append(java.data_files([(1, "void"), (2, "void")]))
    delete(java, ["id"], 1)
    assert table.rows_at(table.snapshot_ids()[-1]) == Counter([(2, "right"), (2, "void")])
    check_ranges(table)


def test_a_delete_in_an_old_spec_stays_in_its_partition(create_table: CreateTable) -> None:
    table = create_table("id bigint, part string", partitioned_by="part")
    java = JavaWriters(table)
    left, right = java.data_files([(1, "left"), (2, "left"), (1, "right"), (2, "right")])
    java.append([left, right])
    with java.spec() as spec:
        spec.addField(java.term("bucket", "id", 2))
    java.append(java.data_files([(1, "left"), (2, "left"), (1, "right")]))
    last = delete(java, ["id"], 1, partition_of=left)
    assert table.rows_at(last) == Counter(
        [(1, "left"), (2, "left"), (2, "left"), (1, "right"), (1, "right"), (2, "right")]
    )
    check_ranges(table)


def test_files_that_lack_the_column_of_their_partition(create_table: CreateTable, tmp_path: Path) -> None:
    """As a Hive table leaves them: without field ids, and the partition's value only in the folder's name."""
    table = create_table("id bigint, part string", partitioned_by="part")
    for part in ("left", "right"):
        (tmp_path / f"part={part}").mkdir()
        pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / f"part={part}" / "rows.parquet")
    table.sql(f"CALL lab.system.add_files(table => '{table.identifier}', source_table => '`parquet`.`{tmp_path}`')")
    java = JavaWriters(table)
    left = java.scan_tasks()[0].file()
    delete(java, ["part", "id"], ("left", 1), ("right", 2), partition_of=left)
    with java.spec() as spec:
        spec.removeField("part")
    delete(java, ["part", "id"], ("left", 2), ("right", 3), (None, 1))
    delete(java, ["part"], "left")
    check_ranges(table)


def test_rows_stay_deleted_by_a_column_that_is_dropped(create_table: CreateTable) -> None:
    """As the spec has it; Iceberg's own readers stop, unless they are asked for the dropped column too."""
    table = create_table("id bigint, code int")
    java = JavaWriters(table)
    java.append(java.data_files([(n, n * 10) for n in range(6)]))
    delete(java, ["code"], 10)
    delete(java, ["code", "id"], (20, 2), (30, 4))
    before_drop = table.snapshot_ids()[-1]
    with java.schema() as schema:
        schema.deleteColumn("code")
    java.append(java.data_files([(7,)]))
    delete(java, ["id"], 3, 7)

    def state(snapshot_id: int | None, up_to: int) -> Counter[Any]:
        rows = java.rows_at(snapshot_id, schema_of=before_drop)
        is_dropped = table.load().snapshot_by_id(up_to).schema_id != 0
        return Counter([row[:1] for row in rows.elements()]) if is_dropped else rows

    check_ranges(table, state=state)


def test_a_column_that_is_added_again_is_another_one(create_table: CreateTable) -> None:
    table = create_table("id bigint, code int")
    java = JavaWriters(table)
    java.append(java.data_files([(1, 10), (2, 20), (3, 30)]))
    first = delete(java, ["code"], 10)
    with java.schema() as schema:
        schema.deleteColumn("code")
        schema.addColumn("code", java.type("int"))
    java.append(java.data_files([(4, 10), (5, 20)]))
    last = delete(java, ["code", "id"], (20, 2), (None, 3), (10, 4))
    assert weights_of(changes_of(table, first, last)) == Counter({(3, None): -1, (5, 20): 1})
    assert weights_of(changes_of(table, None, last)) == Counter({(2, None): 1, (5, 20): 1})


def test_rewritten_deletes_keep_their_sequence_number(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    java.append(java.data_files([(1,), (2,), (3,)]))
    delete(java, ["id"], 1)
    delete(java, ["id"], 2)
    java.append(java.data_files([(1,), (2,)]))
    old = {file.location(): file for task in java.scan_tasks() for file in task.deletes()}.values()
    number = max(file.dataSequenceNumber() for file in old)
    java.rewrite(removed=old, added=java.equality_deletes(["id"], [(1,), (2,)]), sequence_number=number)
    assert java.rows_at(table.snapshot_ids()[-1]) == Counter([(1,), (2,), (3,)])
    delete(java, ["id"], 2)
    check_ranges(table)
