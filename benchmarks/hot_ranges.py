"""Peak memory and CPU of one reduce task whose rows do not fit into its memory.

``PYTHONPATH=plugins:tests:. python -m benchmarks.hot_ranges``, with ``--rows 1000000`` for the changed rows,
``--memory 64`` for MiB of the task, ``--bed one_identity`` for some of the beds, ``--json FILE`` for the numbers. Each
task is a process of its own. All rows are in one reduce partition, the worst that a skewed key can do.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from icefloe.batch.reduce.moves import write_moves
from icefloe.batch.reduce.read_range import read_range
from icefloe.flow import Phase
from icefloe.memory_pool import share_heap
from support.fakes.peak_memory import peak_kib
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA

_WORD: Final = 200
_ABOVE_TASK_MIB: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFigures:
    """The figures of one task.

    Attributes:
        shuffled_mib: compressed bytes that it fetches.
        base_mib: memory of the process before, with all libraries.
        peak_mib: most memory of the process.
        cpu_seconds: CPU of the task.
    """

    bed: str
    rows: int
    changes: int
    memory_mib: int
    shuffled_mib: int
    base_mib: int
    peak_mib: int
    cpu_seconds: float


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("memory of reduce tasks with more rows than fit")
    parser.add_argument("--rows", type=int, default=2_000_000, help="changed rows; half of them before a commit")
    parser.add_argument("--memory", type=int, action="append", help="MiB of the task; again for more")
    parser.add_argument("--bed", action="append", choices=list(BEDS), help="a bed; again for more; default: all")
    options = parser.parse_args(arguments)
    # For the processes that measure, as for a command's.
    share_heap(os.environ)
    figures = []
    for bed in options.bed or BEDS:
        with TemporaryDirectory() as folder:
            batch = shuffled(Path(folder), bed, options.rows)
            for memory in options.memory or [256]:
                # A process for each task, because the peak of a process never falls.
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
                    figures.append(processes.submit(measured, batch, bed, options.rows, memory).result())
    Console(width=120).print(as_grid(figures), highlight=False)
    write_figures(options.json, [asdict(each) for each in figures])
    return 0


def shuffled(folder: Path, bed: str, rows: int, *, transfer: str = "store") -> OpenBatch:
    """A batch up to coalesce: one commit replaces half of the rows by the other half."""
    made, identity, columns = BEDS[bed]
    workshop = Workshop.create(folder).set(
        identifier_columns=identity,
        initial_load="from_now",
        shuffle={"partitions": 1, "transfer": transfer},
        **({} if columns is None else {"columns": columns}),
    )
    workshop.table.append(made(0, rows // 2))
    workshop.deliver()
    workshop.replace(made(1, rows // 2))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    for each in batch.coalesce().plan.hash_ranges:
        write_moves(batch.batch_folder, each.range_id, epoch=0)
    return batch


def measured(batch: OpenBatch, bed: str, rows: int, memory_mib: int) -> RangeFigures:
    """Runs the one reduce task of a batch in this process."""
    running = batch.edited(memory_bytes=memory_mib << 20).running
    running.folder.store.delete(["results/00000.json"])
    base, started = peak_kib(), time.process_time()
    result = read_range(running.folder, running.folder_of_changes, 0, requests=running.requests, epoch=0)
    return RangeFigures(
        bed=bed,
        rows=rows,
        changes=result.message.rows,
        memory_mib=memory_mib,
        shuffled_mib=result.fetched_bytes >> 20,
        base_mib=base >> 10,
        peak_mib=peak_kib() >> 10,
        cpu_seconds=round(time.process_time() - started, 2),
    )


def as_grid(figures: Sequence[RangeFigures]) -> Grid:
    grid = Grid("bed", "rows", "changes", "shuffled MiB", "memory MiB", "base MiB", "peak MiB", "limit MiB", "CPU s")
    for each in figures:
        grid.add_row(
            each.bed,
            f"{each.rows:,}",
            f"{each.changes:,}",
            f"{each.shuffled_mib:,}",
            f"{each.memory_mib:,}",
            f"{each.base_mib:,}",
            f"{each.peak_mib:,}",
            f"{each.memory_mib + _ABOVE_TASK_MIB:,}",
            f"{each.cpu_seconds:.1f}",
        )
    return grid


def _rows(ids: pa.Array, side: int) -> pa.Table:
    data = np.random.default_rng(side).integers(97, 123, len(ids) * _WORD, np.uint8)
    ends = np.arange(0, (len(ids) + 1) * _WORD, _WORD, dtype=np.int32)
    words = pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(data))
    return pa.table([ids, pa.array(np.full(len(ids), float(side))), words], schema=SCHEMA)


def _many_identities(side: int, count: int) -> pa.Table:
    return _rows(pa.array(np.arange(count)), side)


def _one_identity(side: int, count: int) -> pa.Table:
    # Four of five rows have one key.
    ids = np.arange(count)
    return _rows(pa.array(np.where(ids % 5, 7, ids)), side)


def _equal_rows(side: int, count: int) -> pa.Table:
    ids = pa.array(np.full(count, 7))
    return pa.table([ids, pa.array(np.full(count, float(side))), pa.array(["x" * _WORD] * count)], schema=SCHEMA)


def _narrow(side: int, count: int) -> pa.Table:
    ids = np.arange(count)
    words = pa.nulls(count, pa.string())
    return pa.table([pa.array(ids), pa.array(np.full(count, float(side))), words], schema=SCHEMA)


def _moved_identity(side: int, count: int) -> pa.Table:
    return _rows(pa.array(np.full(count, 7)), 0).set_column(0, SCHEMA.field(0), pa.array(np.full(count, 7 + side)))


BEDS: Final[Mapping[str, tuple[Callable[[int, int], pa.Table], list[str] | None, list[str] | None]]] = {
    "many_identities": (_many_identities, ["id"], None),
    "narrow": (_narrow, ["id"], None),
    "one_identity": (_one_identity, ["id"], None),
    "equal_rows": (_equal_rows, None, None),
    "moved_identity": (_moved_identity, ["id"], ["value", "word"]),
}
"""The rows before and after the commit, the identifier columns, and the delivered ones."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
