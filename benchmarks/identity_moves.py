"""Rows that only change their identity: the largest task that looks for them, in one process and by hash ranges.

``PYTHONPATH=plugins:tests:. python -m benchmarks.identity_moves``, with ``--rows 400000`` for the rows of the table,
``--files 8`` for its data files, ``--target 1`` for MiB of a range, ``--json FILE`` for the numbers. One commit gives
every row another key, which is not delivered, and every other row another value. Each way is a process of its own.
``one process`` is the way of batches that releases without hash rows opened.
"""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA

_WAYS: Final = ("one process", "hash ranges")
_WORD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFigures:
    """The figures of one way.

    Attributes:
        shuffled_mib: compressed bytes of the map outputs.
        write_cpu_seconds: CPU of `shuffle_write`.
        tasks: tasks that look for the rows.
        rows: rows that the largest of them reads; ``mib`` its bytes, ``cpu_seconds`` its CPU.
        rest_cpu_seconds: CPU of everything after `shuffle_write`.
    """

    way: str
    changes: int
    shuffled_mib: float
    write_cpu_seconds: float
    tasks: int
    rows: int
    mib: float
    cpu_seconds: float
    rest_cpu_seconds: float


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("rows that only change their identity")
    parser.add_argument("--rows", type=int, default=400_000, help="rows of the table")
    parser.add_argument("--files", type=int, default=8, help="data files before and after the commit")
    parser.add_argument("--target", type=int, default=1, help="MiB of a range")
    options = parser.parse_args(arguments)
    figures = []
    for way in _WAYS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
            figures.append(processes.submit(measured, way, options.rows, options.files, options.target).result())
    grid = Grid(
        "way", "changes", "shuffled MiB", "shuffle_write CPU s", "tasks", "largest: rows", "MiB", "CPU s",
        "all after shuffle_write: CPU s",
    )  # fmt: skip
    for each in figures:
        grid.add_row(*(f"{value:,}" if isinstance(value, int | float) else value for value in asdict(each).values()))
    Console(width=160).print(grid, highlight=False)
    write_figures(options.json, [asdict(each) for each in figures])
    return 0


def measured(way: str, rows: int, files: int, target_mib: int) -> MoveFigures:
    """Runs a batch in this process, in one thread."""
    with TemporaryDirectory() as folder, _way(way):
        batch = opened(Path(folder), rows, files, target_mib)
        started = time.process_time()
        batch.run(Phase.SHUFFLE_WRITE)
        write_cpu_seconds = time.process_time() - started
        started = time.process_time()
        plan = batch.coalesce().plan
        coalesce_cpu_seconds = time.process_time() - started
        engine = _Timed()
        batch.run(Phase.SHUFFLE_READ, engine)
        rest_cpu_seconds = time.process_time() - started
        report = batch.commit()
        extents = BatchExtents(batch.batch_folder, 0)
        ranges = [[extents.of(each.range_id)] for each in plan.hash_ranges]
        # One process reads all ranges.
        ranges = ranges or [[extents.of(each.range_id) for each in plan.ranges]]
        return MoveFigures(
            way=way,
            changes=sum(report.counts.values()),
            shuffled_mib=round(sum(each.size_bytes for each in _data_files(batch)) / 2**20, 1),
            write_cpu_seconds=round(write_cpu_seconds, 1),
            tasks=len(ranges),
            rows=max(sum(each.most_rows for each in of_task) for of_task in ranges),
            mib=round(max(sum(each.size_bytes for each in of_task) for of_task in ranges) / 2**20, 1),
            cpu_seconds=round(max(engine.cpu_seconds[0]) if plan.hash_ranges else coalesce_cpu_seconds, 2),
            rest_cpu_seconds=round(rest_cpu_seconds, 1),
        )


def opened(folder: Path, rows: int, files: int, target_mib: int) -> OpenBatch:
    """A batch of one commit that gives every row another key."""
    workshop = Workshop.create(folder).set(
        columns=["value", "word"], initial_load="from_now", shuffle={"target_size_bytes": target_mib << 20}
    )
    words = np.random.default_rng(1).integers(97, 123, rows * _WORD, np.uint8)
    for first in range(0, rows, rows // files):
        workshop.table.append(_rows(words, first, rows // files))
    workshop.deliver()
    changed = [_rows(words, first, rows // files, moved=rows) for first in range(0, rows, rows // files)]
    workshop.replace(pa.concat_tables(changed))
    return workshop.open()


def _rows(words: "np.typing.NDArray[np.uint8]", first: int, count: int, *, moved: int = 0) -> pa.Table:
    ids = np.arange(first, first + count)
    ends = np.arange(0, (count + 1) * _WORD, _WORD, dtype=np.int32)
    of_rows = np.ascontiguousarray(words[first * _WORD : (first + count) * _WORD])
    column = pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(of_rows))
    values = np.where(ids % 2, 0.0, 1.0 if moved else 0.0)
    return pa.table([pa.array(ids + moved), pa.array(values), column], schema=SCHEMA)


def _data_files(batch: OpenBatch) -> list[Any]:
    return [each for each in batch.store.list("") if each.key.endswith(".data")]


def _way(way: str) -> Any:
    """A context in which batches are planned for a way."""
    if way == "hash ranges":
        return patch("icefloe.batch.plan.partition_count._ROWS_PER_HASH_PARTITION", 1 << 14)
    return patch("icefloe.batch.plan.make_plan.hash_partition_count", return_value=0)


class _Timed:
    """An engine of this thread that takes the CPU of each task."""

    def __init__(self) -> None:
        self.cpu_seconds: list[list[float]] = []

    def map(self, function: Any, numbers: Sequence[int]) -> list[Any]:
        results = []
        self.cpu_seconds.append([])
        for number in numbers:
            started = time.process_time()
            results.append(function(number))
            self.cpu_seconds[-1].append(time.process_time() - started)
        return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
