"""Rows that only change their identity: the largest task that looks for them, by hash ranges.

``PYTHONPATH=plugins:tests:. python -m benchmarks.identity_moves``, with ``--rows 400000`` for the rows of the table,
``--files 8`` for its data files, ``--target 1`` for MiB of a range, ``--json FILE`` for the numbers. One commit gives
every row another key, which is not delivered, and every other row another value.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA

_WORD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFigures:
    """The figures of the batch.

    Attributes:
        shuffled_mib: compressed bytes of the map outputs.
        write_cpu_seconds: CPU of `shuffle_write`.
        tasks: tasks that look for the rows.
        rows: rows that the largest of them reads; ``mib`` its bytes, ``cpu_seconds`` its CPU.
        rest_cpu_seconds: CPU of everything after `shuffle_write`.
    """

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
    figures = measured(options.rows, options.files, options.target)
    grid = Grid(
        "changes", "shuffled MiB", "shuffle_write CPU s", "tasks", "largest: rows", "MiB", "CPU s",
        "all after shuffle_write: CPU s",
    )  # fmt: skip
    grid.add_row(*(f"{value:,}" for value in asdict(figures).values()))
    Console(width=160).print(grid, highlight=False)
    write_figures(options.json, [asdict(figures)])
    return 0


def measured(rows: int, files: int, target_mib: int) -> MoveFigures:
    """Runs a batch in this process, in one thread."""
    small = patch("icefloe.batch.plan.make_plan._ROWS_PER_HASH_PARTITION", 1 << 14)
    with TemporaryDirectory() as folder, small:
        batch = opened(Path(folder), rows, files, target_mib)
        started = time.process_time()
        batch.run(Phase.SHUFFLE_WRITE)
        write_cpu_seconds = time.process_time() - started
        started = time.process_time()
        plan = batch.coalesce().plan
        engine = _Timed()
        batch.run(Phase.SHUFFLE_READ, engine)
        rest_cpu_seconds = time.process_time() - started
        report = batch.commit()
        extents = BatchExtents(batch.batch_folder, 0)
        ranges = [extents.of(each.range_id) for each in plan.hash_ranges]
        return MoveFigures(
            changes=sum(report.batch.counts.values()),
            shuffled_mib=round(sum(each.size_bytes for each in _data_files(batch)) / 2**20, 1),
            write_cpu_seconds=round(write_cpu_seconds, 1),
            tasks=len(ranges),
            rows=max(each.rows for each in ranges),
            mib=round(max(each.size_bytes for each in ranges) / 2**20, 1),
            cpu_seconds=round(max(engine.cpu_seconds[0]), 2),
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
