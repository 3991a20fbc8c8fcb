"""CPU seconds of reading the changes of many equality delete files on many small data files, on one core.

``PYTHONPATH=plugins:tests:. python -m benchmarks.equality_deletes``, with ``--data-files 2000 --delete-files 100`` for
other sizes, ``--json FILE`` for the numbers. Each delete file is a commit of its own and may reach every data file.
The raw read is pyarrow's of the same files: the keys of all data and delete files, then the rows of the data files.
Any reader does that much if every data file has deleted rows.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.made_up_table import SCHEMA, MadeUpTable
from benchmarks.run import use_one_core
from icefloe.api import read_changes

_ROWS: Final = 100
_KEYS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFigures:
    """The figures of one size.

    Attributes:
        planned_seconds: CPU until the reader is there.
        delivered_seconds: CPU from the metadata to the last change.
        raw_seconds: CPU of the raw read.
        ratio: ``raw_seconds`` divided by ``delivered_seconds``.
    """

    data_files: int
    delete_files: int
    changes: int
    planned_seconds: float
    delivered_seconds: float
    raw_seconds: float
    ratio: float


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU of many equality delete files on many data files")
    parser.add_argument("--data-files", type=int, default=2000)
    parser.add_argument("--delete-files", type=int, default=100)
    options = parser.parse_args(arguments)
    use_one_core()
    with TemporaryDirectory() as place:
        table = made_table(Path(place), data_files=options.data_files, delete_files=options.delete_files)
        figures = measured(table, Path(place), delete_files=options.delete_files)
    grid = Grid(
        "data files", "delete files", "changes", "planned CPU s", "delivered CPU s", "raw CPU s", "raw / delivered"
    )
    grid.add_row(*(f"{value:,}" if isinstance(value, int) else f"{value:.2f}" for value in asdict(figures).values()))
    partial(Console(width=120).print, highlight=False)(grid)
    write_figures(options.json, asdict(figures))
    return 0


def made_table(place: Path, *, data_files: int, delete_files: int) -> Table:
    """One snapshot of data files, of which each holds ids from the whole range; then a snapshot per delete file."""
    made, schema = MadeUpTable(place / "table"), SCHEMA.as_arrow()
    keys = pa.schema([schema.field("id")])
    highest = data_files * _ROWS - 1

    def written(name: str, columns: pa.Table, *, is_delete: bool = False) -> DataFile:
        path = place / f"{name}.parquet"
        pq.write_table(columns, path)
        return MadeUpTable.file(path, rows=columns.num_rows, ids=(0, highest), is_delete=is_delete)

    rows = (list(range(number, highest + 1, data_files)) for number in range(data_files))
    files = [
        written(f"data-{number}", pa.table([ids, ids, [f"word {id_}" for id_ in ids]], schema=schema))
        for number, ids in enumerate(rows)
    ]
    made.append(files)
    for number in range(delete_files):
        ids = [(each * delete_files + number) * 7919 % (highest + 1) for each in range(_KEYS)]
        made.append([written(f"delete-{number}", pa.table([ids], schema=keys), is_delete=True)])
    return made.load()


def measured(table: Table, place: Path, *, delete_files: int) -> DeleteFigures:
    """The figures of the changes of all delete files."""
    first = table.metadata.snapshots[0].snapshot_id
    paths = sorted(place.glob("data-*.parquet"))
    started = time.process_time()
    for path in (*paths, *place.glob("delete-*.parquet")):
        _read(path, ["id"])
    for path in paths:
        _read(path, None)
    raw_seconds = time.process_time() - started
    started = time.process_time()
    reader = read_changes(table, after_snapshot_id=first)
    planned_seconds = time.process_time() - started
    changes = sum(batch.num_rows for batch in reader)
    delivered_seconds = time.process_time() - started
    return DeleteFigures(
        data_files=len(paths),
        delete_files=delete_files,
        changes=changes,
        planned_seconds=round(planned_seconds, 2),
        delivered_seconds=round(delivered_seconds, 2),
        raw_seconds=round(raw_seconds, 2),
        ratio=round(raw_seconds / delivered_seconds, 2),
    )


def _read(path: Path, columns: list[str] | None) -> None:
    with pq.ParquetFile(path) as opened:
        opened.read(columns=columns, use_threads=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
