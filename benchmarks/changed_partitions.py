"""CPU seconds of finding the partitions that a commit may have changed, on one core, next to PyIceberg alone.

``PYTHONPATH=plugins:tests:. python -m benchmarks.changed_partitions``, with ``--files 100000`` for another size,
``--json FILE`` for the numbers. The commit adds some of the files, or all of them, in 1,000 partitions. PyIceberg reads
the manifests that the snapshot added, which is right for a commit that only adds files.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.made_up_table import MadeUpTable
from benchmarks.run import use_one_core
from icefloe import read_changed_partitions

_PARTITIONS: Final = 1_000
_SPEC: Final = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "word"))


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU of finding the changed partitions of a commit")
    parser.add_argument("--files", type=int, default=100_000)
    options = parser.parse_args(arguments)
    use_one_core()
    figures = []
    grid = Grid("files of the table", "files added", "partitions", "icefloe CPU s", "PyIceberg CPU s")
    for added in (options.files // 1000, options.files // 100, options.files // 10, options.files):
        with TemporaryDirectory() as place:
            table = make_table(Path(place), files=options.files, added=added)
            seconds, found = cpu_of(partial(by_icefloe, table))
            peer_seconds, of_peer = cpu_of(partial(by_pyiceberg, table))
        if found != of_peer:
            raise ValueError(f"icefloe found {len(found)} partitions, PyIceberg {len(of_peer)}")
        figures.append(
            {
                "files": options.files, "added": added, "partitions": len(found), "cpu_seconds": round(seconds, 2),
                "pyiceberg_cpu_seconds": round(peer_seconds, 2),
            }
        )  # fmt: skip
        grid.add_row(f"{options.files:,}", f"{added:,}", f"{len(found):,}", f"{seconds:.2f}", f"{peer_seconds:.2f}")
    Console(width=120).print(grid, highlight=False)
    write_figures(options.json, figures)
    return 0


def make_table(place: Path, *, files: int, added: int) -> StaticTable:
    """A snapshot with the other files, then the commit, which adds some."""
    made = MadeUpTable(place / "table", _SPEC)
    made.append([_file(place, number) for number in range(max(1, files - added))])
    made.append([_file(place, files + number) for number in range(added)])
    return made.load()


def _file(place: Path, number: int) -> DataFile:
    word = f"w{number % _PARTITIONS}"
    return MadeUpTable.file(
        place / f"word={word}/{number}.parquet", rows=1, ids=(number, number), partition=Record(word)
    )


def by_icefloe(table: StaticTable) -> set[str]:
    found = read_changed_partitions(table, after_snapshot_id=table.metadata.snapshots[0].snapshot_id)
    return set(found["path"].to_pylist())


def by_pyiceberg(table: StaticTable) -> set[str]:
    last = table.metadata.snapshots[-1]
    added = [each for each in last.manifests(table.io) if each.added_snapshot_id == last.snapshot_id]
    entries = [entry for each in added for entry in each.fetch_manifest_entry(table.io, discard_deleted=False)]
    values = {entry.data_file.partition for entry in entries}
    return {_SPEC.partition_to_path(each, table.schema()) for each in values}


def cpu_of(call: Callable[[], set[str]]) -> tuple[float, set[str]]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
