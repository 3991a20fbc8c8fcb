"""The data files of one map task: files that probably hold the same rows, bounded by bytes."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, Final

from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term

__all__ = ["PlannedFile", "map_tasks"]

Bounds = tuple[object, object]
_ROW_GROUP_BYTES: Final = 128 << 20
"""Bytes read of a file for one of its rows, unless the file is smaller: the row group size that writers aim at."""
_MOST_TASKS_AT_ONCE: Final = 8
"""Files that belong together may make a task read the bytes of so many tasks. A larger one would run alone for long."""
_MOST_ROWS: Final = 1 << 22
"""Rows of a task whose hashes fit twice into half of its memory, 1 GiB by default. If more of them have lost their
order, its files are read again for each slice of the hashes."""


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """A file to read, with the planner's knowledge of its rows.

    Attributes:
        bounds: (lower, upper) by field id, for values that can be compared.
        delete_files: delete files by the numbers that terms use for them.
    """

    task: ScanTask
    bounds: Mapping[int, Bounds]
    delete_files: Mapping[int, DeleteFile] = field(repr=False, default_factory=dict)

    @property
    def partition(self) -> Hashable:
        """The table partition: files with equal values hold rows of the same one."""
        return self.task.partition

    @property
    def read_bytes(self) -> int:
        """Approximate number of bytes read of the file and of its own delete files.

        Delete files that apply to other files too are left out: smaller tasks would read them more often.
        """
        own = [
            number for number in NO_DELETES.union(*(t.delete_files for t in self.task.terms)) if self._is_own(number)
        ]
        rows, size_bytes = self.most_rows_touched, self.task.data_file.file_size_bytes
        return min(size_bytes, rows * _ROW_GROUP_BYTES) + sum(self.delete_files[number].size_bytes for number in own)

    @property
    def is_removed(self) -> bool:
        """True if a step removes rows of the file."""
        return any(term.weight < 0 for term in self.task.terms)

    @property
    def is_added(self) -> bool:
        """True if a step adds the file. Delete files that change on a file that stays add next to nothing."""
        return any(sum(term.weight for term in terms) > 0 for terms in self._terms_by_ordinal())

    def _terms_by_ordinal(self) -> Iterator[list[Term]]:
        for _, terms in groupby(self.task.terms, key=attrgetter("change_ordinal")):
            yield list(terms)

    @cached_property
    def most_rows_touched(self) -> int:
        """Most rows touched: all or, if only delete files of this file alone change, the rows that they delete."""
        changed = NO_DELETES
        for terms in self._terms_by_ordinal():
            fresh = _differing([term.delete_files for term in terms]) - changed
            if sum(term.weight for term in terms) or not all(self._is_own(number) for number in fresh):
                return self.task.data_file.record_count
            changed |= fresh
        return sum(self.delete_files[number].record_count for number in changed)

    def _is_own(self, number: int) -> bool:
        delete_file = self.delete_files.get(number)
        return delete_file is not None and delete_file.referenced_data_file is not None


def map_tasks(files: Sequence[PlannedFile], *, map_task_bytes: int) -> list[tuple[ScanTask, ...]]:
    """Groups files into map tasks. Any grouping leads to the same changes; this one lets carry-over meet early.

    Where rows may have to be compared by their hashes, a task has no more of them than its memory holds, unless they
    are in files that belong together.

    Files of one table partition are next to each other. If files of a partition are both removed and added, they are
    ordered by the column whose bounds separate them best, and files of equal or overlapping bounds stay together. If no
    file is removed, nothing can cancel, and files keep the order of the steps.

    Args:
        files: files of a batch, each once.
        map_task_bytes: bytes that a task should read; only files that belong together make it read more.

    Returns:
        The files of each map id.
    """
    if not any(file.is_removed for file in files):
        packed = _packed(([file] for file in files), map_task_bytes=map_task_bytes, most_rows=None)
        return [tuple(file.task for file in task) for task in packed]
    units: list[list[PlannedFile]] = []
    for _, group in groupby(sorted(files, key=_by_partition), key=_by_partition):
        units.extend(_units(list(group), map_task_bytes))
    packed = _packed(units, map_task_bytes=map_task_bytes, most_rows=_MOST_ROWS)
    return [tuple(file.task for file in task) for task in packed]


def _differing(sets: Sequence[DeleteNumbers]) -> DeleteNumbers:
    """The delete files that are in some of the sets but not in all."""
    return NO_DELETES.union(*sets) - sets[0].intersection(*sets)


def _by_partition(file: PlannedFile) -> str:
    return repr(file.partition)


def _units(files: list[PlannedFile], map_task_bytes: int) -> Iterator[list[PlannedFile]]:
    """Groups of files of one table partition that should stay together."""
    # Day by day, a rewritten file has the day of the file that it replaces:
    #   removed   a: 1-1   b: 2-2   c: 3-3        units  a a'  |  b b'  |  c c'
    #   added     a': 1-1  b': 2-2  c': 3-3       each cancels within one task
    # If a unit is too large for a task, only files of equal bounds stay together.
    field_id = _separating_column(files)
    if field_id is None:
        yield from ([file] for file in files)
        return
    for component in _overlapping(sorted(files, key=lambda file: file.bounds[field_id]), field_id):
        if sum(file.read_bytes for file in component) <= map_task_bytes:
            yield component
        else:
            for _, same in groupby(component, key=lambda file: file.bounds[field_id]):
                yield from _torn(list(same), _MOST_TASKS_AT_ONCE * map_task_bytes)


def _torn(files: list[PlannedFile], most_bytes: int) -> Iterator[list[PlannedFile]]:
    """Files that no bound separates: one unit or, if they are too large, pairs that may hold similar rows."""
    if sum(file.read_bytes for file in files) <= most_bytes:
        yield files
        return
    # By size, because a file that is rewritten in place has about as many rows as the file that it replaces.
    by_rows = sorted(files, key=lambda file: file.task.data_file.record_count)
    removed = [file for file in by_rows if file.is_removed]
    added = [file for file in by_rows if not file.is_removed]
    yield from ([file for file in pair if file] for pair in zip_longest(removed, added))


def _separating_column(files: Sequence[PlannedFile]) -> int | None:
    """The column on which most added files have the bounds of few removed files; None if nothing can cancel."""
    removed = [file for file in files if file.is_removed]
    added = [file for file in files if file.is_added]
    if not removed or not added:
        return None
    shared = sorted(set.intersection(*(set(file.bounds) for file in files)))
    if not shared:
        return None
    return max(shared, key=lambda field_id: _separation(removed, added, field_id))


def _separation(removed: Iterable[PlannedFile], added: Iterable[PlannedFile], field_id: int) -> tuple[int, int]:
    """Number of different bounds that both sides share, then the number of different bounds in total."""
    before = {file.bounds[field_id] for file in removed}
    after = {file.bounds[field_id] for file in added}
    return len(before & after), len(before | after)


def _overlapping(files: Sequence[PlannedFile], field_id: int) -> Iterator[list[PlannedFile]]:
    """Runs of files whose ranges touch; ``files`` are in the order of their bounds."""
    run: list[PlannedFile] = []
    highest: Any = None
    for file in files:
        lower, upper = file.bounds[field_id]
        if run and lower > highest:
            yield run
            run = []
        highest = upper if not run else max(highest, upper)
        run.append(file)
    if run:
        yield run


def _packed(
    units: Iterable[list[PlannedFile]], *, map_task_bytes: int, most_rows: int | None
) -> Iterator[list[PlannedFile]]:
    """Tasks of neighbouring units, each filled while the units fit; None: any number of rows does."""
    task: list[PlannedFile] = []
    size_bytes = rows = 0
    for unit in units:
        unit_bytes = sum(file.read_bytes for file in unit)
        unit_rows = 0 if most_rows is None else sum(file.most_rows_touched for file in unit)
        is_full = size_bytes + unit_bytes > map_task_bytes or (most_rows is not None and rows + unit_rows > most_rows)
        if task and is_full:
            yield task
            task, size_bytes, rows = [], 0, 0
        task.extend(unit)
        size_bytes += unit_bytes
        rows += unit_rows
    if task:
        yield task
