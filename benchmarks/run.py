"""Rows per second and shuffled bytes of a map task, on one core, beside the raw speed of reading Parquet."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table
from rich.console import Console

from benchmarks.map_task import map_task_inputs, measure, run_map_task
from benchmarks.rewritten_table import ROWS, rewritten_table
from icefloe.units import format_bytes

FOLDER: Final = Path(__file__).parents[1] / ".cache" / "benchmark"
REPETITIONS: Final = 3
Result = TypeVar("Result")
TARGET_ROWS_PER_SECOND: Final = 3_000_000


def main() -> int:
    say = partial(Console().print, highlight=False, soft_wrap=True)
    say("Making the table, the first time only: 2 million rows of 19 columns, one column updated by Spark ...")
    table = rewritten_table(FOLDER)
    use_one_core()
    raw_seconds, _ = best_of(lambda: read_raw(table))
    say(f"raw iter_batches   {2 * ROWS / raw_seconds / 1e6:6.2f} M rows/s  ({raw_seconds:.2f} s)")
    inputs = [map_task_inputs(table, attempt) for attempt in range(REPETITIONS)]
    remaining = iter(inputs)
    seconds, folder = best_of(lambda: run_map_task(next(remaining)))
    result = measure(folder)
    say(f"map task           {result.rows_read / seconds / 1e6:6.2f} M rows/s  ({seconds:.2f} s, files to changes;"
        f" target {TARGET_ROWS_PER_SECOND / 1e6:.0f}; {seconds / raw_seconds:.2f} times the raw read)")  # fmt: skip
    ratio = result.shuffled_bytes / result.changed_arrow_bytes
    say(f"shuffled           {format_bytes(result.shuffled_bytes)} for {result.changed_rows:,} changed rows,"
        f" {ratio:.2f} times their Arrow size (target below 3)")  # fmt: skip
    return 0


def read_raw(table: Table) -> int:
    """Decode both files as Parquet and nothing else: what any reader needs at least."""
    rows = 0
    for snapshot in table.snapshots():
        for data_file in table.inspect.files(snapshot.snapshot_id)["file_path"].to_pylist():
            with pq.ParquetFile(urlparse(data_file).path, pre_buffer=True) as opened:
                rows += sum(len(batch) for batch in opened.iter_batches(131_072, use_threads=False))
    return rows


def best_of(measured: Callable[[], Result]) -> tuple[float, Result]:
    """The shortest of a few runs, because the machine has other things to do, and the last run's result."""
    times = []
    for _ in range(REPETITIONS):
        started = perf_counter()
        result = measured()
        times.append(perf_counter() - started)
    return min(times), result


def use_one_core() -> None:
    """Bind this process and Arrow's threads to one core, so that rows per second are rows per second and core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


if __name__ == "__main__":
    sys.exit(main())
