"""The parts of a map task over the tables of whole runs: decoding, finding partners, comparing, hashing.

``PYTHONPATH=plugins:tests:. python -m benchmarks.bed_profile --rows 10000000``, after `benchmarks.bed` has written the
tables of as many rows; ``--bed delete`` for some of them. One map task runs on one core under Python's profiler, after
another one that warms up. A part is the share of the time within its functions, and what they call.
"""

import cProfile
import pstats
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.bed import FOLDER
from benchmarks.bed_tables import APPENDED, BEDS, FIXED, bed_tables
from benchmarks.figures import parser_of
from benchmarks.map_task import planned_batch
from benchmarks.run import use_one_core
from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.plan_document import put_map_tasks, tasks_key
from icefloe.storage.location import open_store
from support.spark.spark_lab import CATALOG, NAMESPACE

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "decoding": ("opened_file.py", "batches"),
    "equal bytes": ("identical_columns.py", "identical_columns"),
    "partners": ("rewritten_files.py", "_partners"),
    "taking": ("rewritten_files.py", "_picked"),
    "comparing": ("alignment.py", "differing_rows"),
    "hashing": ("row_hashes.py", "row_hashes"),
}
"""File and function of each part."""


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("parts of a map task over the tables of whole runs")
    names = [bed for bed in BEDS if bed not in (FIXED, *APPENDED)]
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of a table")
    parser.add_argument("--bed", action="append", choices=names, help="a bed; again for more; default: all")
    options = parser.parse_args(arguments)
    beds = options.bed or names
    folder = bed_tables(FOLDER, options.rows, beds)
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    use_one_core()
    grid = Grid("bed", "seconds", *PARTS, "rest", box=None)
    for bed in beds:
        seconds, parts = profiled(catalog.load_table(f"{NAMESPACE}.{bed}"))
        shares = [*parts.values(), 1 - sum(parts.values())]
        grid.add_row(bed, f"{seconds:.2f}", *(f"{share:.0%}" for share in shares))
    Console(width=120).print(grid)
    return 0


def profiled(table: Table) -> tuple[float, dict[str, float]]:
    """Seconds of one map task, and the share of each part."""
    planned, store = planned_batch(table), open_store(f"memory://bed-profile/{table.name()[-1]}")
    put_map_tasks(store, planned.tasks, key=tasks_key(planned.plan.map_task_digests))
    folder = BatchFolder(plan=planned.plan, store=store, memory_bytes=2**30, filter_text=None)
    inputs = MapInputs(folder=folder, io=table.io)
    first, *_, last = [task.map_id for task in planned.tasks] * 2
    write_map_output(inputs, first)
    profile = cProfile.Profile()
    profile.runcall(write_map_output, inputs, last)
    stats: Any = pstats.Stats(profile)
    return stats.total_tt, {part: _seconds_in(stats, *place) / stats.total_tt for part, place in PARTS.items()}


def _seconds_in(stats: Any, file: str, function: str) -> float:
    """Seconds within a function and what it calls; 0 if nothing called it."""
    found = [times[3] for (path, _, name), times in stats.stats.items() if (Path(path).name, name) == (file, function)]
    return sum(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
