"""The speed of reading changes by delete files, next to the raw speed of reading the same data files.

``PYTHONPATH=tests python -m benchmarks.merge_on_read``, with ``--spark`` for Spark's difference of both states too.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from urllib.parse import urlparse

import pyarrow.parquet as pq
from pyiceberg.table import Table
from rich.console import Console

from benchmarks.deleted_tables import deleted_tables
from benchmarks.run import FOLDER, best_of, use_one_core
from icefloe.api import read_changes
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.scan.steps import SnapshotRange
from support.spark.spark_lab import SparkLab

PLACE = FOLDER.parent / "merge_on_read"


def main() -> int:
    say = partial(Console().print, highlight=False, soft_wrap=True)
    say("Making the tables, the first time only: 2 million rows of 19 columns, 1 % updated by delete files ...")
    tables = deleted_tables(PLACE)
    use_one_core()
    for kind, table in tables.items():
        after = table.metadata.snapshots[0].snapshot_id
        plan_seconds, plan = best_of(partial(planned, table, after))
        raw_seconds, rows = best_of(partial(read_raw, plan))
        seconds, changes = best_of(partial(delivered, table, after))
        say(f"{kind}: {len(plan.tasks)} data files, {len(plan.delete_files)} delete files, {changes:,} changes")
        say(f"  planned            {plan_seconds:6.2f} s  ({plan.manifests_read} manifests)")
        say(f"  raw iter_batches   {raw_seconds:6.2f} s  {rows / raw_seconds / 1e6:6.2f} M rows/s")
        say(f"  delivered changes  {seconds:6.2f} s  {rows / seconds / 1e6:6.2f} M rows/s, planned too;"
            f" {seconds / raw_seconds:.2f} times the raw read")  # fmt: skip
    if "--spark" in sys.argv[1:]:
        compare_with_spark(tables, say)
    return 0


def planned(table: Table, after_snapshot_id: int) -> ScanPlan:
    loaded = LoadedTable(table)
    passage = Passage.find(loaded, after_snapshot_id=after_snapshot_id)
    return ScanPlan.of(loaded, SnapshotRange.of_passage(passage, loaded).steps)


def read_raw(plan: ScanPlan) -> int:
    """Decode the data files as Parquet and nothing else: what a reader of whole files needs at least."""
    rows = 0
    for task in plan.tasks:
        with pq.ParquetFile(urlparse(task.data_file.path).path, pre_buffer=True) as opened:
            rows += sum(len(batch) for batch in opened.iter_batches(131_072, use_threads=False))
    return rows


def delivered(table: Table, after_snapshot_id: int) -> int:
    """Everything from the metadata to the changes."""
    reader = read_changes(table, after_snapshot_id=after_snapshot_id, identifier_columns=["flight_id"])
    return sum(batch.num_rows for batch in reader)


def compare_with_spark(tables: Mapping[str, Table], say: Callable[[str], object]) -> None:
    """The difference of the first and the last state, both ways, which is what SQL has for it."""
    lab = SparkLab.start(PLACE, cores=1, heap="3g")
    try:
        for kind, table in tables.items():
            first, *_, last = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
            states = [f"SELECT * FROM {lab.catalog.name}.db.{kind} VERSION AS OF {each}" for each in (first, last)]
            query = " UNION ALL ".join(f"({a} EXCEPT ALL {b})" for a, b in (states, states[::-1]))
            started = perf_counter()
            [[changes]] = lab.spark.sql(f"SELECT count(*) FROM ({query})").collect()
            say(f"{kind}: Spark's EXCEPT ALL {perf_counter() - started:6.2f} s, {changes:,} changes, one core")
    finally:
        lab.stop()


if __name__ == "__main__":
    sys.exit(main())
