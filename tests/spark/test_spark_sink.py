"""The spark sink, over tables of Iceberg that Spark writes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.spark.iceberg_tables import StatementSink
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import ORIGIN, StagedBatch, StagedHistory
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

UPSERT = """
MERGE INTO {target} t USING (SELECT * FROM changes WHERE _change_type <> 'UPDATE_BEFORE') c ON t.id = c.id
WHEN MATCHED AND c._change_type = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET word = c.word
WHEN NOT MATCHED AND c._change_type <> 'DELETE' THEN INSERT (id, word) VALUES (c.id, c.word)
"""


def in_files(folder: Path, staged: StagedBatch) -> StagedBatch:
    """The batch with its parts as files, as tasks stage them."""
    parts = []
    for part in staged.parts:
        path = folder / f"{staged.batch.batch_number}-{part.number}.parquet"
        pq.write_table(pa.Table.from_batches(part.read(), staged.batch.schema), path)
        parts.append(replace(part, urls=(f"file://{path}",)))
    return replace(staged, parts=tuple(parts))


def process_of(table: SparkTable, statement: str) -> DeliveringProcess:
    target = TargetTable(table.lab.catalog, table.identifier)
    return DeliveringProcess(lambda _calls: StatementSink(target, table.name, statement))


def refreshed(table: SparkTable) -> list[dict[str, Any]]:
    table.sql("REFRESH TABLE {table}")
    return table.sql("SELECT id, word FROM {table} ORDER BY id").to_pylist()


def test_a_statement_brings_batches_on_a_branch(create_table: CreateTable, tmp_path: Path) -> None:
    table = create_table("id bigint, word string")
    history = StagedHistory()
    process = process_of(table, UPSERT)
    process.claim(ORIGIN)

    def bring(*batches: StagedBatch) -> None:
        process.run(*(in_files(tmp_path, each) for each in batches))
        assert refreshed(table) == [{"id": key, "word": history.rows[key]["word"]} for key in sorted(history.rows)]

    bring(*history.load({key: {"word": f"w{key}"} for key in range(6)}, batches=2))
    bring(history.change({1: None, 2: {"word": "x"}, 9: {"word": "new"}}))
    bring(history.change())
    bring(*history.load({7: {"word": "again"}}))
    assert set(table.load().metadata.refs) == {"main"}


def test_a_statement_that_writes_elsewhere_is_refused(create_table: CreateTable, tmp_path: Path) -> None:
    table = create_table("id bigint, word string")
    process = process_of(table, f"INSERT INTO {table.name} SELECT id, word FROM changes -- not {{target}}")
    process.claim(ORIGIN)
    [load] = StagedHistory().load({1: {"word": "a"}})
    with pytest.raises(TerminalError, match=r"^the statement wrote snapshot \d+ to .* itself, or to another branch"):
        process.run(in_files(tmp_path, load))


@pytest.mark.extended
@pytest.mark.parametrize("statement", ["INSERT INTO {target} SELECT 1, 'a'; SELECT 1", "INSERT INTO {target} SELECT x"])
def test_a_statement_that_spark_does_not_take_is_a_permanent_error(
    create_table: CreateTable, tmp_path: Path, statement: str
) -> None:
    process = process_of(create_table("id bigint, word string"), statement)
    process.claim(ORIGIN)
    [load] = StagedHistory().load({1: {"word": "a"}})
    with pytest.raises(TerminalError, match=r"^Spark cannot run sink\.statement: .*; correct the sink"):
        process.run(in_files(tmp_path, load))
