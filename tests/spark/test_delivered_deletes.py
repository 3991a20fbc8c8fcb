"""Merge-on-read tables through ``icefloe run``: the first load, the changes after it, and what ``verify`` says."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from support.pipelines.workspace import icefloe
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row, difference, typed_changes_of, weights_of
from support.spark.spark_lab import CATALOG
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]


def pipeline_of(table: SparkTable, folder: Path, **keys: Any) -> Path:
    """A pipeline file for the table; its changes go to ``changes`` beside it."""
    path = folder / "pipeline.yaml"
    minimal = {
        "version": 1,
        "name": "deletes",
        "catalog": {"name": CATALOG, **table.lab.catalog_properties},
        "table": table.identifier,
        "storage": (folder / "storage").as_uri(),
        "engine": "local",
        "sink": {"type": "files", "path": (folder / "changes").as_uri()},
    }
    path.write_text(yaml.safe_dump({**minimal, **keys}))
    return path


def delivered(folder: Path, batch: int) -> Counter[Row]:
    """The sum of a batch."""
    weights: Counter[Row] = Counter()
    for part in (folder / "changes" / f"batch={batch}").glob("part-*"):
        weights.update(weights_of(pq.ParquetFile(part).read()))
    return Counter({row: weight for row, weight in weights.items() if weight})


def with_deletes_in_force(table: SparkTable) -> JavaWriters:
    """Twelve rows, of which five are deleted by position or vector and by key, one of them twice."""
    java = JavaWriters(table)
    files = [*java.data_files([(n, 0) for n in range(6)]), *java.data_files([(n, 1) for n in range(4, 10)])]
    java.append(files)
    positions = {files[0]: [0, 1], files[1]: [5]}
    if table.load().format_version == 3:
        java.row_delta(deletes=java.deletion_vectors(positions).added)
    else:
        java.row_delta(deletes=java.position_deletes(positions, granularity="partition"))
    java.row_delta(deletes=java.equality_deletes(["id"], [(4,), (1,)]))
    return java


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("initial_load", ["full", "from_earliest"])
def test_a_table_with_deletes_in_force_is_loaded_and_followed(
    create_table: CreateTable, tmp_path: Path, format_version: int, initial_load: str
) -> None:
    table = create_table("id bigint, v int", format_version=format_version, mode="merge-on-read")
    java = with_deletes_in_force(table)
    loaded = table.snapshot_ids()[-1]
    pipeline = pipeline_of(table, tmp_path, initial_load=initial_load, identifier_columns=["id"])
    first = icefloe("run", pipeline)
    assert (first.code, first.err) == (0, "")
    assert delivered(tmp_path, 0) == difference(Counter(), table.rows_at(loaded))
    assert first.document["delete"] == (5 if initial_load == "from_earliest" else 0)
    table.sql("UPDATE {table} SET v = 5 WHERE id IN (2, 7)")
    java.row_delta(rows=java.data_files([(3, 9)]), deletes=java.equality_deletes(["id"], [(3,), (9,)]))
    second = icefloe("run", pipeline)
    assert (second.code, second.err) == (0, "")
    assert delivered(tmp_path, 1) == difference(table.rows_at(loaded), table.rows_at(table.snapshot_ids()[-1]))
    verified = icefloe("verify", pipeline)
    assert (verified.code, verified.err) == (0, "")


def test_from_earliest_begins_with_the_state_at_the_oldest_snapshot_left(
    create_table: CreateTable, tmp_path: Path
) -> None:
    table = create_table("id bigint, v int")
    java = with_deletes_in_force(table)
    first, second, third = table.snapshot_ids()
    java.expire(first)
    pipeline = pipeline_of(table, tmp_path, initial_load="from_earliest")
    done = icefloe("run", pipeline)
    assert (done.code, done.document["steps"]) == (0, 2)
    parts = (tmp_path / "changes" / "batch=0").glob("part-*")
    found = sum((typed_changes_of(pq.ParquetFile(part).read()) for part in parts), Counter())
    deleted = difference(table.rows_at(second), table.rows_at(third))
    expected = {("INSERT", 0, *row): count for row, count in table.rows_at(second).items()}
    assert found == Counter(expected) + Counter({("DELETE", 1, *row): -weight for row, weight in deleted.items()})
    assert icefloe("verify", pipeline).code == 0
