"""`icefloe.spark.read_changes` on a real session, compared with `icefloe.read_changes` row for row."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from icefloe.api import read_changes
from icefloe.batch import changelog_scan
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.spark import read_changes as spark_changes
from icefloe.spark import register
from support.pipelines.workshop import Workshop
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import CHANGE_COLUMNS, Row, typed_changes_of
from support.spark.spark_lab import SparkLab

pytestmark = pytest.mark.spark


def counted(changes: pa.Table) -> Counter[Row]:
    return typed_changes_of(changes, columns=CHANGE_COLUMNS[1:])


def agreed(lab: SparkLab, table: Any, *bounds: int | None, **options: Any) -> Counter[Row]:
    """The changes of a range, which both readers give."""
    found = counted(spark_changes(lab.spark, table, *bounds, **options).toArrow())
    assert found == counted(read_changes(table, *bounds, **options).read_all())
    return found


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A table with some history; each of its files is a map task."""
    monkeypatch.setattr(changelog_scan, "BatchSpec", partial(BatchSpec, map_task_bytes=1))
    found = Workshop.create(tmp_path)
    found.append([*range(30), 7])
    found.update([1, 2], value=2.0)
    found.delete([3])
    found.append([100])
    return found


BY_ID: dict[str, Any] = {"identifier_columns": ["id"]}
HIDDEN: dict[str, Any] = {"identifier_columns": ["id"], "columns": ["value"]}


@pytest.mark.parametrize(
    "options",
    [{}, BY_ID, BY_ID | {"filter": "id < 20", "changes": "net"}, HIDDEN, HIDDEN | {"changes": "net"}],
    ids=["rows", "identity", "net of a filter", "hidden identity", "net of a hidden identity"],
)
def test_rows_that_were_removed_are_the_same_to_both_readers(
    spark_lab: SparkLab, workshop: Workshop, options: dict[str, Any]
) -> None:
    first, *_ = workshop.snapshot_ids()
    assert agreed(spark_lab, workshop.table.refresh(), first, **options)


def test_rows_that_were_added_are_not_shuffled(spark_lab: SparkLab, workshop: Workshop) -> None:
    table, (first, *_, before, _) = workshop.table.refresh(), workshop.snapshot_ids()
    assert len(agreed(spark_lab, table, None, first)) == 30
    assert len(agreed(spark_lab, table, before)) == 1
    frame = spark_changes(spark_lab.spark, table, before)
    assert "Exchange" not in frame._jdf.queryExecution().toString()


def test_an_empty_range_has_no_rows(spark_lab: SparkLab, workshop: Workshop) -> None:
    *_, head = workshop.snapshot_ids()
    assert agreed(spark_lab, workshop.table.refresh(), head) == Counter()


def test_vectors_row_ids_and_columns_that_change_are_read_alike(spark_lab: SparkLab) -> None:
    table = spark_lab.create_table(
        "reader_vectors",
        "id bigint, word string",
        format_version=3,
        mode="merge-on-read",
        partitioned_by="bucket(2, id)",
    )
    table.sql("INSERT INTO {table} SELECT id, concat('w', id) FROM range(40)")
    table.sql("UPDATE {table} SET word = 'x' WHERE id % 7 = 0")
    table.sql("ALTER TABLE {table} RENAME COLUMN word TO text")
    table.sql("ALTER TABLE {table} ADD COLUMN word bigint")
    table.sql("DELETE FROM {table} WHERE id % 5 = 0")
    table.sql("INSERT INTO {table} VALUES (7, 'again', 1), (41, NULL, NULL)")
    first = table.snapshot_ids()[0]
    by_row_id = agreed(spark_lab, table.load(), first)
    assert "UPDATE_AFTER" in {row[0] for row in by_row_id}
    for options in (BY_ID, {"changes": "net"}, {"commit_groups": "split"}, {"columns": ["word"], "filter": "id > 3"}):
        assert agreed(spark_lab, table.load(), first, **options)


def test_equality_deletes_of_one_commit_are_read_alike(spark_lab: SparkLab) -> None:
    table = spark_lab.create_table("reader_equality", "id bigint, word string", identifier_fields=())
    java = JavaWriters(table)
    java.append(java.data_files([(number, "a") for number in range(9)]))
    with java.transaction() as transaction:
        [newer] = java.data_files([(1, "b"), (20, "b")])
        transaction.row_delta(rows=[newer], deletes=java.equality_deletes(["id"], [(1,), (2,), (None,)]))
        transaction.row_delta(deletes=java.equality_deletes(["id"], [(20,), (3,)]))
    first = table.snapshot_ids()[0]
    for groups in ("fuse", "split"):
        assert agreed(spark_lab, table.load(), first, commit_groups=groups, **BY_ID)
    assert agreed(spark_lab, table.load(), first)


def test_a_data_source_gives_the_same(spark_lab: SparkLab, workshop: Workshop) -> None:
    register(spark_lab.spark)
    table, (first, *_, before, _) = workshop.table.refresh(), workshop.snapshot_ids()
    catalog = {"name": "lab", **table.catalog.properties}

    def loaded(**options: Any) -> Any:
        source = spark_lab.spark.read.format("icefloe").options(**options)
        return source.options(**{f"catalog.{key}": value for key, value in catalog.items()}).load("db.events")

    rewritten = loaded(after_snapshot_id=first, identifier_columns="id")
    assert counted(rewritten.toArrow()) == counted(read_changes(table, first, **BY_ID).read_all())
    added = loaded(from_snapshot_id_exclusive=before)
    assert counted(added.toArrow()) == counted(read_changes(table, before).read_all())
    with pytest.raises(AnalysisException, match="option 'until' is unknown: expected table, path, catalog"):
        loaded(until="now")
