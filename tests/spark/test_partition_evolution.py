"""Partition specs that change inside a range, and files that are partitioned in every way, against Iceberg's states."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.range_check import changes_of, check_evolving_ranges, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import difference, weights_of
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark


def test_identity_partitions_of_a_column_that_is_widened(create_table: CreateTable) -> None:
    table = create_table("id int, k int, d decimal(9,2), x float", partitioned_by="k, d, x", mode="merge-on-read")
    table.sql("INSERT INTO {table} VALUES (1, 1, 1.25, 0.1f), (2, 2, 2.25, 0.2f), (3, null, null, null)")
    for change in ("k TYPE bigint", "d TYPE decimal(20,2)", "x TYPE double"):
        table.sql(f"ALTER TABLE {{table}} ALTER COLUMN {change}")
    table.sql("INSERT INTO {table} VALUES (4, 5000000000, 12345678901.25, 0.1d)")
    table.sql("UPDATE {table} SET id = 7 WHERE id = 2")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    # Iceberg's generic reader casts the narrower value of the partition and fails; Spark does not.
    check_ranges(table, state=lambda snapshot_id, _: table.rows_at(snapshot_id))


NEAR = 0.10000000149011612
"""The double that a float of 0.1 is."""
PARTITIONED: Mapping[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-1, 7),
    "long": (-(2**63), 2**63 - 1),
    "float": (0.5, float("nan")),
    "double": (0.1, NEAR),
    "date": (date(1960, 1, 1), date(9999, 12, 31)),
    "time": (time(0, 0, 0, 1), time(23, 59, 59, 999_999)),
    "timestamp": (datetime(1960, 1, 1, 0, 0, 0, 123_456), datetime(2024, 2, 29)),
    "timestamptz": (datetime(1960, 1, 1, 0, 0, 0, 123_456, UTC), datetime(2024, 2, 29, tzinfo=UTC)),
    "string": ("a/b=c d", ""),
    "uuid": (UUID(int=7), UUID(int=2**128 - 1)),
    "binary": (b"\0\xff", b""),
    "decimal(9, 2)": (Decimal("1.25"), Decimal("-1.25")),
    "decimal(38, 10)": (Decimal("1234567890123456789012345678.0123456789"), Decimal(0)),
}


def test_identity_partitions_of_every_type_and_deletes_in_one_of_them(create_table: CreateTable) -> None:
    table = create_table("id int", format_version=2)
    java = JavaWriters(table)
    names = {kind: f"p{number}" for number, kind in enumerate(PARTITIONED)}
    with java.schema() as update:
        for kind, name in names.items():
            update.addColumn(name, java.type(kind))
    with java.spec() as spec:
        for name in names.values():
            spec.addField(name)

    def row(number: int, which: int | None) -> dict[str, Any]:
        return {"id": number, **{names[k]: None if which is None else each[which] for k, each in PARTITIONED.items()}}

    files = java.data_files([row(1, 0), row(1, 1), row(1, None), row(2, 0), row(2, 1)])
    java.append(files)
    # The key is in every partition, and goes from one.
    java.row_delta(deletes=java.equality_deletes(["id"], [(1,)], partition_of=files[0]))
    java.row_delta(deletes=java.position_deletes({files[1]: [1]}, granularity="partition"))
    java.overwrite(removed=[files[2]], added=java.data_files([row(1, None), row(3, None)]))
    check_evolving_ranges(table)


@pytest.mark.parametrize("kind", ["timestamp_ns", "timestamptz_ns"])
def test_identity_partitions_of_nanoseconds(create_table: CreateTable, kind: str) -> None:
    table = create_table("id int", format_version=3)
    java = JavaWriters(table)
    with java.schema() as update:
        update.addColumn("p", java.type(kind))
    with java.spec() as spec:
        spec.addField("p")
    instant = 1_700_000_000_123_456_789
    files = java.data_files([(1, instant), (2, instant + 1), (3, None)])
    java.append(files)
    java.delete([files[1]])
    # Iceberg's own reader casts the partition's long to a time and fails.
    found = changes_of(table)
    values = found["p"].cast(pa.int64()).to_pylist()
    assert sorted(zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), values, strict=True)) == [
        ("DELETE", 2, instant + 1), ("INSERT", 1, instant), ("INSERT", 2, instant + 1), ("INSERT", 3, None),
    ]  # fmt: skip


def test_a_file_that_is_imported_again_takes_the_values_of_its_new_partition(
    create_table: CreateTable, tmp_path: Path
) -> None:
    table = create_table("id int, day date")
    table.sql("INSERT INTO {table} VALUES (0, date'2000-01-01')")
    place = tmp_path / "hive/day=2024-01-01"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), place / "rows.parquet")

    def add_files(folder: Path) -> None:
        source = f"`parquet`.`file://{folder}`"
        table.lab.sql(
            f"CALL lab.system.add_files(table => '{table.identifier}', source_table => '{source}', "
            "check_duplicate_files => false)"
        )

    add_files(place)
    table.sql("DELETE FROM {table} WHERE day IS NULL")
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD day")
    add_files(place.parent)
    table.sql("DELETE FROM {table} WHERE id = 2")
    check_ranges(table, state=lambda snapshot_id, _: table.rows_at(snapshot_id))
    first, *_, last = table.snapshot_ids()
    net = changes_of(table, first, changes="net", identifier_columns=["id"])
    assert weights_of(net) == difference(table.rows_at(first), table.rows_at(last))


def write_hive_folder(folder: Path) -> None:
    """Files as Hive leaves them: no field ids, partition columns in the names of folders only."""
    for region, day in (("a b", "2024-02-29"), ("c", "1960-01-01"), ("__HIVE_DEFAULT_PARTITION__", "2024-02-29")):
        place = folder / f"region={region}" / f"day={day}"
        place.mkdir(parents=True)
        ids = range(10 * len(region), 10 * len(region) + 5)
        points = [None if n % 3 == 0 else {"x": n, "tags": [str(n), None]} for n in ids]
        rows = pa.table({"point": points, "id": pa.array(ids, pa.int32()), "stray": [True] * 5})
        pq.write_table(rows, place / "rows.parquet")


def test_imported_files_without_ids_and_without_their_partition_columns(
    create_table: CreateTable, tmp_path: Path
) -> None:
    write_hive_folder(tmp_path / "hive")
    table = create_table(
        "id int, point struct<x: bigint, tags: array<string>>, day date, region string", mode="copy-on-write",
        partitioned_by="region, day",
    )  # fmt: skip
    table.sql("INSERT INTO {table} VALUES (1, named_struct('x', 1, 'tags', array()), date'2024-02-29', 'c')")
    source = f"`parquet`.`file://{tmp_path}/hive`"
    table.lab.sql(f"CALL lab.system.add_files(table => '{table.identifier}', source_table => '{source}')")
    assert "schema.name-mapping.default" in table.load().properties
    table.sql("UPDATE {table} SET region = 'd' WHERE id IN (10, 31)")
    table.sql("ALTER TABLE {table} RENAME COLUMN region TO place")
    table.sql("ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    table.sql("DELETE FROM {table} WHERE place IS NULL AND point IS NULL")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD day")
    table.sql("UPDATE {table} SET day = date'2000-01-01' WHERE id = 12")
    # Iceberg's generic reader fails on a struct whose fields get their ids by name; Spark does not.
    check_ranges(table, state=lambda snapshot_id, _: table.rows_at(snapshot_id))
