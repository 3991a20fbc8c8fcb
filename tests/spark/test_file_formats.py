"""Contents of Iceberg's files of each format in addition to the table's columns."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.history.history import History
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from spark.range_check import changes_of
from support.spark.row_counts import rows_of, weights_of
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
LINEAGE = (
    NestedField(2147483540, "_row_id", LongType()),
    NestedField(2147483539, "_last_updated_sequence_number", LongType()),
)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_row_ids_that_a_rewrite_carried_over_are_read_by_their_field_ids(
    create_table: CreateTable, file_format: str
) -> None:
    table = create_table("id bigint, v int", format_version=3, properties={"write.format.default": file_format})
    table.append(pa.table({"id": range(20), "v": pa.array([0] * 20, pa.int32())}))
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (3, 7)")
    loaded = table.load()
    reader = ManifestReader(loaded)
    snapshot = History.of(loaded).snapshot(table.snapshot_ids()[-1])
    entries = [entry for manifest in reader.manifests(snapshot) for entry in reader.data_entries(manifest)]
    files = [entry.data_file for entry in entries if entry.status.name == "ADDED"]
    assert files
    assert {file.file_format for file in files} == {file_format.upper()}
    schema = TableSchema.of(Schema(*loaded.schema().fields, *LINEAGE))
    batches = [batch for file in files for _, batch in FileReader(io=loaded.io, table=table.name).rows(file, schema)]
    found = pa.Table.from_batches(batches)
    # Changed rows inherit the sequence number of their file, which leaves it null.
    changed = [row["id"] for row in found.to_pylist() if row["_last_updated_sequence_number"] is None]
    assert sorted(changed) == [3, 7]
    rewritten = ", ".join(map(str, found["id"].to_pylist()))
    expected = table.sql(f"SELECT id, v, _row_id FROM {{table}} WHERE id IN ({rewritten})")
    assert rows_of(found.select(["id", "v", "_row_id"])) == rows_of(expected)


@pytest.fixture
def _jvm_in_new_york(spark_lab: SparkLab) -> Iterator[None]:
    zones = spark_lab.spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/New_York"))
    yield
    zones.setDefault(before)


@pytest.mark.usefixtures("_jvm_in_new_york")
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_times_do_not_depend_on_the_zone_of_the_writer(create_table: CreateTable, file_format: str) -> None:
    table = create_table("id int, a timestamp_ntz, b timestamp", properties={"write.format.default": file_format})
    texts = ("2024-07-01 12:00:00.5", "2024-01-01 12:00:00", "1950-01-01 00:00:00")
    rows = ", ".join(f"({n}, timestamp_ntz'{text}', timestamp'{text}')" for n, text in enumerate(texts))
    table.sql(f"INSERT INTO {{table}} VALUES {rows}")
    times = [datetime.fromisoformat(text) for text in texts]
    expected = {(n, at, at.replace(tzinfo=UTC)): 1 for n, at in enumerate(times)}
    assert weights_of(changes_of(table)) == expected
