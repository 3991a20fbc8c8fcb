"""Targets of the iceberg sink, as Spark made them, reads them, and works on them in between."""

from typing import Any

import pyarrow as pa
import pytest

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import FLIGHTS, ORIGIN, StagedBatch, StagedHistory
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]

COLUMNS = "id bigint, word string, number int"


def deliver(table: SparkTable, *batches: StagedBatch) -> None:
    process = DeliveringProcess(lambda _calls: MirrorSink(TargetTable(table.lab.catalog, table.identifier)))
    process.claim(ORIGIN)
    process.run(*batches)


def refreshed(table: SparkTable) -> list[dict[str, Any]]:
    table.sql("REFRESH TABLE {table}")
    return table.sql("SELECT id, word, number FROM {table} ORDER BY id").to_pylist()


def expected(history: StagedHistory) -> list[dict[str, Any]]:
    return [dict(history.rows[key]) for key in sorted(history.rows)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("partitioned_by", ["", "number", "bucket(4, id)", "truncate(1, word)"])
def test_spark_reads_a_mirror_and_compacts_it(create_table: CreateTable, mode: str, partitioned_by: str) -> None:
    table = create_table(COLUMNS, partitioned_by=partitioned_by, mode=mode)
    history = StagedHistory()
    deliver(table, *history.load({key: {"word": f"w{key}", "number": key % 3} for key in range(30)}))
    assert refreshed(table) == expected(history)
    deliver(table, history.change({key: {"word": "x", "number": 0} for key in range(0, 30, 4)}, {1: None, 2: None}))
    assert refreshed(table) == expected(history)
    catalog = table.name.split(".")[0]
    table.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )
    deliver(table, history.change({3: None, 4: {"word": "y", "number": 1}, 40: {"word": None, "number": None}}))
    assert refreshed(table) == expected(history)
    table.sql(f"CALL {catalog}.system.expire_snapshots(table => '{table.identifier}', retain_last => 1, "
              "older_than => TIMESTAMP '2100-01-01 00:00:00')")  # fmt: skip
    deliver(table, history.change({40: {"word": "z", "number": 2}, 5: None}))
    assert refreshed(table) == expected(history)


def test_a_row_that_spark_changed_is_drift(create_table: CreateTable) -> None:
    table = create_table(COLUMNS, mode="merge-on-read")
    history = StagedHistory()
    deliver(table, *history.load({key: {"word": "a"} for key in range(5)}))
    table.sql("DELETE FROM {table} WHERE id = 3")
    with pytest.raises(Exception, match="has drifted"):
        deliver(table, history.change({3: {"word": "b"}}))


def test_spark_writes_position_deletes_into_the_target_and_they_count(create_table: CreateTable) -> None:
    table = create_table(COLUMNS, mode="merge-on-read")
    history = StagedHistory()
    deliver(table, *history.load({key: {"word": "a", "number": key} for key in range(20)}))
    # An update to the same row: deletes of Spark's own, and the row in another file.
    table.sql("UPDATE {table} SET word = 'a' WHERE id IN (3, 4, 5)")
    deliver(table, history.change({3: None, 4: {"word": "b", "number": 4}, 6: None}))
    assert refreshed(table) == expected(history)


def test_spark_reads_a_changelog(create_table: CreateTable) -> None:
    columns = "_commit_timestamp timestamp, id bigint, word string, number int"
    table = create_table(columns, partitioned_by="days(_commit_timestamp)")
    history = StagedHistory()
    process = DeliveringProcess(lambda _calls: ChangelogSink(TargetTable(table.lab.catalog, table.identifier)))
    process.claim(ORIGIN)
    process.run(*history.load({key: {"word": "a"} for key in range(5)}), history.change({1: None, 2: {"word": "b"}}))
    table.sql("REFRESH TABLE {table}")
    names = ", ".join([*ChangeColumns.ALL[:3], *FLIGHTS.names])
    rows = table.sql(f"SELECT {names} FROM {{table}} ORDER BY _batch, _change_ordinal, id, _change_type DESC")
    wanted = [{name: change[name] for name in rows.column_names} for change in history.changes]
    assert rows.to_pylist() == sorted(
        wanted, key=lambda row: (row["_batch"], row["id"], row["_change_type"] != "UPDATE_BEFORE")
    )
    assert isinstance(rows, pa.Table)
