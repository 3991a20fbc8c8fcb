from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from support.spark.row_counts import difference, rows_of, typed_changes_of, weights_of
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark


@pytest.fixture(params=[1, 2, 3])
def updated(request: pytest.FixtureRequest, create_table: Callable[..., SparkTable]) -> SparkTable:
    """Two rows, one of them updated copy-on-write."""
    table = create_table(
        "id bigint NOT NULL, name string", format_version=request.param, identifier_fields=["id"] * (request.param > 1)
    )
    table.sql("INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    table.sql("UPDATE {table} SET name = 'c' WHERE id = 2")
    return table


def test_pyiceberg_reads_what_spark_wrote_copy_on_write(updated: SparkTable) -> None:
    before, after = updated.snapshot_ids()
    loaded = updated.load()
    assert (
        rows_of(loaded.scan(snapshot_id=before).to_arrow()) == updated.rows_at(before) == Counter([(1, "a"), (2, "b")])
    )
    assert rows_of(loaded.scan().to_arrow()) == updated.rows_at(after) == Counter([(1, "a"), (2, "c")])
    assert loaded.current_snapshot().summary.operation.value == "overwrite"
    assert loaded.current_snapshot().summary["total-delete-files"] == "0"


def test_the_changelog_view_adds_up_to_the_difference_of_the_states(updated: SparkTable) -> None:
    before, after = updated.snapshot_ids()
    plain = updated.changelog(after_snapshot_id=before)
    assert weights_of(plain) == difference(updated.rows_at(before), updated.rows_at(after))
    paired = updated.changelog(after_snapshot_id=before, up_to_snapshot_id=after, identifier_columns=["id"])
    assert typed_changes_of(paired) == Counter([("UPDATE_BEFORE", 0, 2, "b"), ("UPDATE_AFTER", 0, 2, "c")])


def test_spark_sees_what_pyiceberg_commits(create_table: Callable[..., SparkTable]) -> None:
    table = create_table("id bigint, name string")
    table.load().append(pa.table({"id": [7], "name": ["from PyIceberg"]}))
    assert rows_of(table.sql("SELECT * FROM {table}")) == Counter([(7, "from PyIceberg")])


def test_a_table_in_merge_on_read_mode_gets_delete_files(create_table: Callable[..., SparkTable]) -> None:
    table = create_table("id bigint", mode="merge-on-read", format_version=3)
    table.append(pa.table({"id": list(range(100))}))
    table.sql("DELETE FROM {table} WHERE id = 3")
    assert table.load().current_snapshot().summary["total-delete-files"] == "1"
    assert table.rows_at(table.snapshot_ids()[-1]).total() == 99


def test_identifier_fields_partitions_and_properties_reach_the_table(create_table: Callable[..., SparkTable]) -> None:
    table = create_table(
        "id bigint NOT NULL, at timestamp",
        partitioned_by="bucket(4, id), days(at)",
        identifier_fields=["id"],
        properties={"write.parquet.compression-codec": "snappy"},
    ).load()
    assert table.schema().identifier_field_names() == {"id"}
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]", "day"]
    assert table.properties["write.parquet.compression-codec"] == "snappy"


def test_the_java_api_is_within_reach(create_table: Callable[..., SparkTable]) -> None:
    table = create_table("id bigint")
    table.java_table().updateProperties().set("owner", "a test").commit()
    assert table.load().properties["owner"] == "a test"


def test_the_catalog_can_be_named_in_a_pipeline_file(spark_lab: SparkLab) -> None:
    assert spark_lab.catalog_properties["uri"].startswith("sqlite:////")
