"""CPU seconds of reading the changes of a commit of many small files, next to a raw read of them, on one core.

``PYTHONPATH=plugins:tests:. python -m benchmarks.small_files``, with ``--files 10000 --rows 100`` for other sizes,
``--json FILE`` for the numbers. The commit appends the files, so nothing cancels. The raw read is pyarrow's of the same
files, one after another. The least number of map tasks is that of the files' bytes divided by the bytes of a task.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.made_up_table import SCHEMA, MadeUpTable
from benchmarks.map_task import planned_batch
from benchmarks.run import use_one_core
from benchmarks.turns import cpu_of
from icefloe.api import read_changes
from icefloe.pipeline.settings import ShuffleSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFileFigures:
    """The figures of one commit.

    Attributes:
        map_tasks: number of map tasks.
        least_map_tasks: number of map tasks if each read as many bytes as it should.
        planned_seconds: CPU of planning the batch.
        delivered_seconds: CPU from the metadata to the last change.
        raw_seconds: CPU of the raw read.
        ratio: ``raw_seconds`` divided by ``delivered_seconds``.
    """

    files: int
    changes: int
    map_tasks: int
    least_map_tasks: int
    planned_seconds: float
    delivered_seconds: float
    raw_seconds: float
    ratio: float


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU of many small data files")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="rows of a file")
    options = parser.parse_args(arguments)
    use_one_core()
    with TemporaryDirectory() as place:
        figures = measured(made_table(Path(place), files=options.files, rows=options.rows), Path(place))
    grid = Grid("files", "changes", "map tasks", "least", "planned CPU s", "delivered CPU s", "raw CPU s", "ratio")
    grid.add_row(*(f"{value:,}" if isinstance(value, int) else f"{value:.2f}" for value in asdict(figures).values()))
    partial(Console(width=110).print, highlight=False)(grid)
    write_figures(options.json, asdict(figures))
    return 0


def made_table(place: Path, *, files: int, rows: int) -> Table:
    """A first snapshot of one file, then one that appends the others."""
    made, schema = MadeUpTable(place / "table"), SCHEMA.as_arrow()

    def written(number: int) -> DataFile:
        path, ids = place / f"data-{number}.parquet", range(number * rows, (number + 1) * rows)
        pq.write_table(pa.table([ids, ids, [f"word {id_}" for id_ in ids]], schema=schema), path)
        return MadeUpTable.file(path, rows=rows, ids=(ids[0], ids[-1]))

    made.append([written(0)])
    made.append([written(number) for number in range(1, files + 1)])
    return made.load()


def measured(table: Table, place: Path) -> SmallFileFigures:
    """The figures of the second snapshot."""
    first = table.metadata.snapshots[0].snapshot_id
    paths = sorted(place.glob("data-*.parquet"))[1:]
    raw_seconds, _ = cpu_of(lambda: sum(map(_read, paths)))
    planned_seconds, planned = cpu_of(lambda: planned_batch(table, identifier="id"))
    delivered_seconds, changes = cpu_of(
        lambda: sum(batch.num_rows for batch in read_changes(table, after_snapshot_id=first))
    )
    return SmallFileFigures(
        files=len(paths),
        changes=changes,
        map_tasks=len(planned.tasks),
        least_map_tasks=-(-sum(path.stat().st_size for path in paths) // ShuffleSettings().map_task_bytes),
        planned_seconds=round(planned_seconds, 2),
        delivered_seconds=round(delivered_seconds, 2),
        raw_seconds=round(raw_seconds, 2),
        ratio=round(raw_seconds / delivered_seconds, 2),
    )


def _read(path: Path) -> int:
    with pq.ParquetFile(path) as opened:
        return int(opened.read(use_threads=False).num_rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
