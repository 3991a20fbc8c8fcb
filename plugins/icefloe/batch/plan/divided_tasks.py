"""Map tasks of large files, divided by row groups, so that one file does not keep one task busy alone for long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Final

from icefloe.iceberg.data_file import RowGroups
from icefloe.iceberg.files.row_group_sizes import RowGroupSize
from icefloe.iceberg.scan.scan_tasks import ScanTask
from icefloe.iceberg.table import FileIO
from icefloe.storage.parallel import map_parallel

_MOST_TASKS: Final = 64
"""A batch of more map tasks keeps enough cores busy as it is. Their footers are not read."""
_LEAST_SHARE: Final = 1.5
"""Tasks of fewer times the bytes of a map task stay whole: one of their parts would be small."""
_LEAST_BYTES: Final = 1 << 20
"""Smaller tasks stay whole, too: to read them takes no longer than to ask for their footers."""
_FOOTERS_AT_ONCE: Final = 16


def divided_tasks(
    tasks: Sequence[tuple[ScanTask, ...]], *, io: FileIO, table: str, map_task_bytes: int
) -> list[tuple[ScanTask, ...]]:
    """The same files, with large tasks divided into several that read some row groups each.

    Rows that were copied cancel before the shuffle only within a task. So a task of several files is divided only if
    their row groups have the same numbers of rows, as after an update: copied rows then meet in one part. A task with
    delete files stays whole, because their positions count from the beginning of a file.

    Args:
        tasks: files of each map task.
        io: opens the files, for their footers.
        table: its name, for errors.
        map_task_bytes: bytes that a task should read.

    Raises:
        FileGoneError: a file does not exist.
        TerminalError: a file is damaged or may not be read.
        TransientError: the storage did not answer.
    """
    if len(tasks) > _MOST_TASKS:
        return list(tasks)
    least_bytes = max(_LEAST_BYTES, _LEAST_SHARE * map_task_bytes)
    large = [place for place, files in enumerate(tasks) if _may_be_divided(files, least_bytes)]

    def parts_of(place: int) -> list[tuple[ScanTask, ...]]:
        return list(_parts(tasks[place], io=io, table=table, map_task_bytes=map_task_bytes))

    parts = dict(zip(large, map_parallel(parts_of, large, at_once=_FOOTERS_AT_ONCE), strict=True))
    return [part for place, files in enumerate(tasks) for part in parts.get(place, [files])]


def _may_be_divided(files: Sequence[ScanTask], least_bytes: float) -> bool:
    return (
        sum(file.data_file.file_size_bytes for file in files) >= least_bytes
        and all(file.data_file.file_format == "PARQUET" for file in files)
        and not any(term.delete_files for file in files for term in file.terms)
    )


def _parts(
    files: tuple[ScanTask, ...], *, io: FileIO, table: str, map_task_bytes: int
) -> Iterator[tuple[ScanTask, ...]]:
    # An error is raised, also of a file that is gone: left to its task, a plan that is made again would be another one.
    groups = [RowGroupSize.of_file(file.data_file, io=io, table=table) for file in files]
    rows = [group.rows for group in groups[0]]
    counts = [file.data_file.record_count for file in files]
    are_alike = all([group.rows for group in found] == rows for found in groups)
    if len(rows) < 2 or not are_alike or any(count != sum(rows) for count in counts):
        yield files
        return
    sizes = [sum(of_files[number].size_bytes for of_files in groups) for number in range(len(rows))]
    for cut in _cuts(sizes, map_task_bytes):
        yield tuple(_part(file, found, cut) for file, found in zip(files, groups, strict=True))


@dataclass(frozen=True, slots=True)
class _Cut:
    first: int
    stop: int


def _cuts(sizes: Sequence[int], most_bytes: int) -> Iterator[_Cut]:
    """Runs of row groups of about equal bytes, as many as make each about ``most_bytes``."""
    ends = [*accumulate(sizes)]
    pieces = max(1, min(len(sizes), round(ends[-1] / most_bytes)))
    # A row group belongs to the piece that holds its middle:
    #   bytes    10 10 10 10    2 pieces of 20    middles 5 15 | 25 35
    places = [int((end - size / 2) * pieces / max(1, ends[-1])) for size, end in zip(sizes, ends, strict=True)]
    for _, run in groupby(range(len(sizes)), key=places.__getitem__):
        numbers = [*run]
        yield _Cut(numbers[0], numbers[-1] + 1)


def _part(file: ScanTask, groups: Sequence[RowGroupSize], cut: _Cut) -> ScanTask:
    if cut == _Cut(0, len(groups)):
        return file
    data_file, taken = file.data_file, groups[cut.first : cut.stop]
    rows_before = sum(group.rows for group in groups[: cut.first])
    return replace(
        file,
        data_file=replace(
            data_file,
            record_count=sum(group.rows for group in taken),
            first_row_id=None if data_file.first_row_id is None else data_file.first_row_id + rows_before,
            row_groups=RowGroups(first=cut.first, stop=cut.stop, size_bytes=sum(group.size_bytes for group in taken)),
        ),
    )
