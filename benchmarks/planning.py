"""CPU seconds and memory of planning one small commit of a table with many files and snapshots, on one core.

``PYTHONPATH=plugins:tests:. python -m benchmarks.planning``, with ``--files 100000 --snapshots 1000`` for other sizes,
``--json FILE`` for the numbers. The commit appends ten files, or deletes a hundred keys of one of them. Reading the
metadata file is what any reader does first; planning comes on top of it.
"""

import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyiceberg.manifest import DataFile
from pyiceberg.table import StaticTable
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.made_up_table import MadeUpTable
from benchmarks.run import use_one_core
from icefloe.api import read_changes
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.scan.steps import SnapshotRange

_ROWS: Final = 1000
COMMITS: Final = ("append", "equality delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningFigures:
    """The figures of one commit.

    Attributes:
        manifests: manifests of the table's last snapshot.
        metadata_seconds: CPU of reading the metadata file.
        planned_seconds: CPU of planning the commit after that.
        manifests_read: number of manifests that were opened for it.
        tasks: data files to read.
        base_mib: memory of the process before, with all libraries and the metadata.
        peak_mib: most memory of the process.
    """

    commit: str
    files: int
    snapshots: int
    manifests: int
    metadata_seconds: float
    planned_seconds: float
    manifests_read: int
    tasks: int
    base_mib: int
    peak_mib: int


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU and memory of planning one small commit of a large table")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    options = parser.parse_args(arguments)
    figures = []
    for commit in COMMITS:
        with TemporaryDirectory() as place:
            manifests = make_table(Path(place), commit, files=options.files, snapshots=options.snapshots)
            # A process for each, because the peak of a process never falls.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
                measure = partial(measured, commit, files=options.files, manifests=manifests)
                figures.append(processes.submit(measure, Path(place)).result())
    partial(Console(width=140).print, highlight=False)(as_grid(figures))
    write_figures(options.json, [asdict(each) for each in figures])
    return 0


def make_table(place: Path, commit: str, *, files: int, snapshots: int) -> int:
    """Appends of equally many files, then the commit; returns the number of manifests."""
    made = MadeUpTable(place / "table")
    each = files // snapshots
    for number in range(snapshots):
        first = number * each
        made.append([_file(place, first + one) for one in range(each)], is_listed=number == snapshots - 1)
    if commit == "append":
        made.append([_file(place, files + one) for one in range(10)])
    else:
        made.append([MadeUpTable.file(place / "deletes.parquet", rows=100, ids=(0, _ROWS - 1), is_delete=True)])
    made.load()
    return snapshots + 1


def _file(place: Path, number: int) -> DataFile:
    return MadeUpTable.file(
        place / f"part-{number:08d}.parquet", rows=_ROWS, ids=(number * _ROWS, (number + 1) * _ROWS - 1)
    )


def measured(commit: str, place: Path, *, files: int, manifests: int) -> PlanningFigures:
    """The figures of the last commit of a table."""
    use_one_core()
    started = time.process_time()
    table = StaticTable.from_metadata((place / "table/metadata/00000.metadata.json").as_uri())
    metadata_seconds = time.process_time() - started
    base_mib, after = peak_mib(), table.metadata.snapshots[-2].snapshot_id
    started = time.process_time()
    read_changes(table, after_snapshot_id=after)
    planned_seconds, peak = time.process_time() - started, peak_mib()
    loaded = LoadedTable(table)
    scan = ScanPlan.of(loaded, SnapshotRange.of_passage(Passage.find(loaded, after_snapshot_id=after), loaded).steps)
    return PlanningFigures(
        commit=commit,
        files=files,
        snapshots=len(table.metadata.snapshots),
        manifests=manifests,
        metadata_seconds=round(metadata_seconds, 2),
        planned_seconds=round(planned_seconds, 2),
        manifests_read=scan.manifests_read,
        tasks=len(scan.tasks),
        base_mib=base_mib,
        peak_mib=peak,
    )


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def as_grid(figures: Sequence[PlanningFigures]) -> Grid:
    grid = Grid("commit", "files", "snapshots", "manifests", "metadata CPU s", "planned CPU s", "read", "tasks", "peak")
    for each in figures:
        grid.add_row(
            each.commit,
            f"{each.files:,}",
            f"{each.snapshots:,}",
            f"{each.manifests:,}",
            f"{each.metadata_seconds:.2f}",
            f"{each.planned_seconds:.2f}",
            f"{each.manifests_read:,}",
            f"{each.tasks:,}",
            f"{each.peak_mib:,} MiB ({each.base_mib:,} before)",
        )
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
