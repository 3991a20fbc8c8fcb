"""The bytes that a batch reads and writes in a mirror, next to Spark's MERGE and to copies of the changed files.

``python -m benchmarks.table_sinks [--rows 5000000]`` makes a table of 100 days and changes 50,000 rows of two of them:
updates, deletes and inserts. The same changes go by the mirror, by Spark's ``MERGE`` on the key alone, and by its
``MERGE`` with the two days as literals. Bytes are those of the process's reads and writes, the JVM's for Spark, less
those of a MERGE into an empty table. Before, 1,000,000 inserts go into a changelog: seconds of CPU, memory at the peak.
"""

import os
import resource
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Printed

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import SparkTable

DAYS = 100
CHANGED_DAYS = (40, 41)
CHANGES = 50_000
CHANGELOG_ROWS = 1_000_000
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ORIGIN = Origin(owner="benchmark", pipeline="flights", table="nyc.flights")
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.string()), ("n", pa.float64())])


def rows_of(ids: np.ndarray, count: int, *, word: str) -> pa.Table:
    """Rows whose ids are spread over all days."""
    days = ids % DAYS
    at = np.datetime64(FIRST.replace(tzinfo=None), "us") + days * np.timedelta64(86_400_000_000, "us") + ids
    values = pa.array([f"{word}{number}" for number in ids])
    return pa.table([pa.array(ids), pa.array(at).cast(SCHEMA[1].type), values, pa.array(ids / count)], schema=SCHEMA)


def changes_of(count: int) -> pa.Table:
    """Updates, deletes and inserts in two days, with the change columns."""
    ids = np.arange(count)
    there = ids[np.isin(ids % DAYS, CHANGED_DAYS)]
    third = min(CHANGES // 3, len(there) // 2)
    updated, deleted = there[:third], there[third : 2 * third]
    added = count + np.arange(third * DAYS)
    added = added[np.isin(added % DAYS, CHANGED_DAYS)][:third]
    parts = [
        ("UPDATE_BEFORE", rows_of(updated, count, word="a")), ("UPDATE_AFTER", rows_of(updated, count, word="b")),
        ("DELETE", rows_of(deleted, count, word="a")), ("INSERT", rows_of(added, count, word="c")),
    ]  # fmt: skip
    return pa.concat_tables(changed(kind, rows) for kind, rows in parts)


def changed(kind: str, rows: pa.Table) -> pa.Table:
    constants = [1, kind, 0, 1, FIRST]
    fields = [*ChangeColumns.schema(pa.schema([]), with_batch=True)]
    columns = [pa.repeat(pa.scalar(value, f.type), len(rows)) for value, f in zip(constants, fields, strict=True)]
    return pa.table([*columns, *rows.columns], schema=pa.schema([*fields, *rows.schema]))


def deliver(sink: Sink, rows: pa.Table, number: int) -> None:
    part = StagedPart(number=0, first_row=0, rows=len(rows), size_bytes=rows.nbytes, read=lambda: batches(rows))
    batch = ProvenBatch(
        origin=ORIGIN, batch_number=number, after_snapshot_id=None if number == 0 else number,
        up_to_snapshot_id=number + 1, begins_anew=number == 0, is_load=number == 0, ends_load=number == 0,
        rows=len(rows), counts={}, schema=rows.schema, identity=("id",), hash_key=7,
    )  # fmt: skip
    sink.claim(ORIGIN)
    sink.deliver(batch, sink.begin(batch), part)


def batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches(max_chunksize=65_536)


def bytes_of(process: psutil.Process, work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that a process reads and writes meanwhile, from files and sockets."""
    before = process.io_counters()
    work()
    after = process.io_counters()
    return after.read_chars - before.read_chars, after.write_chars - before.write_chars


def new_target(lab: SparkLab, name: str, mode: str, rows: pa.Table) -> SparkTable:
    table = lab.create_table(
        name, "id bigint, at timestamp, v string, n double", mode=mode, partitioned_by="days(at)",
        properties={"write.distribution-mode": "none"},
    )  # fmt: skip
    sink = MirrorSink(TargetTable(lab.catalog, table.identifier))
    deliver(sink, changed("INSERT", rows), 0)
    return table


def merge(table: SparkTable, source: str, narrowed: str) -> None:
    table.sql(
        f"MERGE INTO {{table}} t USING {source} c ON t.id = c.id{narrowed} "
        "WHEN MATCHED AND c.gone THEN DELETE WHEN MATCHED THEN UPDATE SET t.at = c.at, t.v = c.v, t.n = c.n "
        "WHEN NOT MATCHED AND NOT c.gone THEN INSERT (id, at, v, n) VALUES (c.id, c.at, c.v, c.n)"
    )


def size_of(table: Table) -> int:
    return sum(task.file.file_size_in_bytes for task in table.scan().plan_files())


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.table_sinks")
    parser.add_argument("--rows", type=int, default=5_000_000)
    count = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp(prefix="icefloe-benchmark-"))
    lab = SparkLab.start(folder, heap="3g")
    jvm = next(child for child in psutil.Process().children(recursive=True) if child.name().startswith("java"))
    lab.catalog.create_namespace_if_not_exists("lab")
    sink = ChangelogSink(TargetTable(lab.catalog, "lab.changelog"))
    inserts = changed("INSERT", rows_of(np.arange(CHANGELOG_ROWS), CHANGELOG_ROWS, word="a"))
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    deliver(sink, inserts, 0)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"changelog: {CHANGELOG_ROWS:,} changes, {time.process_time() - cpu:.1f} s of CPU, {more:.0f} MiB more memory"
    )
    rows, changes = rows_of(np.arange(count), count, word="a"), changes_of(count)
    states = changes.filter(pa.compute.not_equal(changes.column(ChangeColumns.TYPE), "UPDATE_BEFORE"))
    gone = pa.compute.equal(states.column(ChangeColumns.TYPE), "DELETE")
    lab.spark.createDataFrame(states.select(SCHEMA.names).append_column("gone", gone)).cache().createTempView("states")
    lab.sql("SELECT count(*) FROM states")
    first, last = (FIRST + timedelta(days=CHANGED_DAYS[0]), FIRST + timedelta(days=CHANGED_DAYS[-1] + 1))
    narrowed = f" AND t.at >= timestamp '{first:%F}' AND t.at < timestamp '{last:%F}'"

    printed = Printed("deletes", "by", "read MB", "written MB", "read of the target", "s", box=None)
    for mode in ("merge-on-read", "copy-on-write"):
        target = partial(new_target, lab, mode=mode, rows=rows)
        name = mode.replace("-", "_")
        empty = lab.create_table(f"empty_{name}", "id bigint, at timestamp, v string, n double", mode=mode)
        # Twice, because the first statement loads classes.
        overhead = [bytes_of(jvm, partial(merge, empty, "states", " AND t.id < 0")) for _ in range(2)][1]
        ways: dict[str, tuple[psutil.Process, SparkTable, Callable[[], object], tuple[int, int]]] = {}
        table = target(f"mirror_{name}")
        mirror = MirrorSink(TargetTable(lab.catalog, table.identifier))
        ways["mirror"] = (psutil.Process(), table, partial(deliver, mirror, changes, 1), (0, 0))
        for by, text in (("MERGE", ""), ("MERGE, two days", narrowed)):
            table = target(f"merge_{name}_{len(text)}")
            ways[by] = (jvm, table, partial(merge, table, "states", text), overhead)
        for by, (process, table, work, less) in ways.items():
            size = size_of(table.load())
            start = time.monotonic()
            read, written = bytes_of(process, work)
            seconds = time.monotonic() - start
            read, written = max(0, read - less[0]), max(0, written - less[1])
            printed.add_row(
                mode, by, f"{read / 1e6:.1f}", f"{written / 1e6:.1f}", f"{read / size:.1%}", f"{seconds:.1f}"
            )
        changed_files = [
            task.file.file_size_in_bytes
            for task in table.load().scan(f"at >= '{first.isoformat()}' and at < '{last.isoformat()}'").plan_files()
        ]
        printed.add_row(mode, "copies of the files after", f"{sum(changed_files) / 1e6:.1f}", "", "", "")
    Console(highlight=False, width=110).print(printed)

    lab.stop()


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    main()
