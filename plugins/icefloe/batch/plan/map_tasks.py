"""Which files a map task reads, large ones divided by row groups, and its document."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise, zip_longest
from operator import attrgetter
from typing import Any, Final

from pyroaring import FrozenBitMap

from icefloe.batch.plan_document import DeleteState, FileTerms, FileWork, MapTask
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term
from icefloe.storage.requests import map_parallel

__all__ = ["PlannedFile", "map_task_document", "map_tasks"]

Bounds = tuple[object, object]
_NO_DELETES: Final = FrozenBitMap()
_ROW_GROUP_BYTES: Final = 128 << 20
"""Bytes read of a file for one of its rows, unless the file is smaller: the row group size that writers aim at."""
_MOST_TASKS_AT_ONCE: Final = 8
"""Files that belong together may make a task read the bytes of so many tasks. A larger one would run alone for long."""
_MOST_ROWS: Final = 1 << 22
"""Rows of a task whose hashes fit twice into half of its memory, 1 GiB by default. If more of them have lost their
order, its files are read again for each slice of the hashes."""
_MOST_TASKS: Final = 64
"""A batch of more map tasks keeps enough cores busy as it is. Their footers are not read."""
_LEAST_SHARE: Final = 1.5
"""Tasks of fewer times the bytes of a map task stay whole: one of their parts would be small."""
_LEAST_BYTES: Final = 1 << 20
"""Smaller tasks stay whole, too: to read them takes no longer than to ask for their footers."""
_FOOTERS_AT_ONCE: Final = 16


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """A file to read, with the planner's knowledge of its rows.

    Attributes:
        bounds: (lower, upper) by field id, for comparable values.
        delete_files: by the numbers that terms use.
    """

    task: ScanTask
    bounds: Mapping[int, Bounds]
    delete_files: Mapping[int, DeleteFile] = field(repr=False, default_factory=dict)

    @property
    def read_bytes(self) -> int:
        """Approximate bytes of file and own delete files. Smaller tasks would read shared ones more often."""
        own = [
            number for number in _NO_DELETES.union(*(t.delete_files for t in self.task.terms)) if self._is_own(number)
        ]
        rows, size_bytes = self.most_rows_touched, self.task.data_file.file_size_bytes
        return min(size_bytes, rows * _ROW_GROUP_BYTES) + sum(self.delete_files[number].size_bytes for number in own)

    @property
    def is_removed(self) -> bool:
        """True if a step removes rows of the file."""
        return any(term.weight < 0 for term in self.task.terms)

    @property
    def is_added(self) -> bool:
        """True if a step adds the file. Delete files that change on a staying file add next to nothing."""
        return any(sum(term.weight for term in terms) > 0 for terms in self._terms_by_ordinal())

    def _terms_by_ordinal(self) -> Iterator[list[Term]]:
        for _, terms in groupby(self.task.terms, key=attrgetter("change_ordinal")):
            yield list(terms)

    @cached_property
    def most_rows_touched(self) -> int:
        """All rows or, if only its own delete files change, those that they delete."""
        changed = _NO_DELETES
        for terms in self._terms_by_ordinal():
            sets = [term.delete_files for term in terms]
            # Delete files that are in some of the sets but not in all.
            fresh = _NO_DELETES.union(*sets) - sets[0].intersection(*sets) - changed
            if sum(term.weight for term in terms) or not all(self._is_own(number) for number in fresh):
                return self.task.data_file.record_count
            changed |= fresh
        return sum(self.delete_files[number].record_count for number in changed)

    def _is_own(self, number: int) -> bool:
        delete_file = self.delete_files.get(number)
        return delete_file is not None and delete_file.referenced_data_file is not None


def map_tasks(files: Sequence[PlannedFile], *, map_task_bytes: int) -> list[tuple[ScanTask, ...]]:
    """Groups files into map tasks. Any grouping leads to the same changes; this one lets carry-over meet early.

    A task has no more rows to hash than its memory holds, unless they are in files that belong together.

    Files of one table partition are neighbours. If some are removed and some added, they are ordered by the column
    whose bounds separate them best, and files of equal or overlapping bounds stay together. If no file is removed,
    files keep the order of the steps.

    Args:
        map_task_bytes: bytes that a task should read; files that belong together may be more.

    Returns:
        The files of each map id.
    """
    units, most_rows = [[file] for file in files], None
    if any(file.is_removed for file in files):
        by_partition = groupby(sorted(files, key=_by_partition), key=_by_partition)
        units = [unit for _, group in by_partition for unit in _units(list(group), map_task_bytes)]
        most_rows = _MOST_ROWS
    packed = _packed(units, map_task_bytes=map_task_bytes, most_rows=most_rows)
    return [tuple(file.task for file in task) for task in packed]


def _by_partition(file: PlannedFile) -> str:
    return repr(file.task.partition)


def _units(files: list[PlannedFile], map_task_bytes: int) -> Iterator[list[PlannedFile]]:
    """Files of one table partition that should stay together."""
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
    """Files that no bound separates: one unit or, if too large, pairs that may hold similar rows."""
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
    """Number of bounds that both sides share, then of all."""
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
    """Neighbouring units, as far as they fit; None: any number of rows does."""
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


def divided_tasks(
    tasks: Sequence[tuple[ScanTask, ...]], files: FileReader, *, map_task_bytes: int
) -> list[tuple[ScanTask, ...]]:
    """Divides large tasks into several that read some row groups each."""
    if len(tasks) > _MOST_TASKS:
        return list(tasks)
    least_bytes = max(_LEAST_BYTES, _LEAST_SHARE * map_task_bytes)
    large = [place for place, task in enumerate(tasks) if _may_be_divided(task, least_bytes)]

    def parts_of(place: int) -> list[tuple[ScanTask, ...]]:
        return list(_parts(tasks[place], files, map_task_bytes=map_task_bytes))

    parts = dict(zip(large, map_parallel(parts_of, large, at_once=_FOOTERS_AT_ONCE), strict=True))
    return [part for place, task in enumerate(tasks) for part in parts.get(place, [task])]


def _may_be_divided(files: Sequence[ScanTask], least_bytes: float) -> bool:
    return (
        sum(file.data_file.file_size_bytes for file in files) >= least_bytes
        and all(file.data_file.file_format == "PARQUET" for file in files)
        and not any(term.delete_files for file in files for term in file.terms)  # positions count from a file's start
    )


def _parts(files: tuple[ScanTask, ...], reader: FileReader, *, map_task_bytes: int) -> Iterator[tuple[ScanTask, ...]]:
    # An error is raised, also of a file that is gone: left to its task, a plan that is made again would be another one.
    groups = [reader.row_groups(file.data_file) for file in files]
    rows = [group.record_count for group in groups[0]]
    counts = [file.data_file.record_count for file in files]
    # Copied rows cancel only within a task: cuts have to fall between the same rows of each file, as after an update.
    are_alike = all([group.record_count for group in found] == rows for found in groups)
    if len(rows) < 2 or not are_alike or any(count != sum(rows) for count in counts):
        yield files
        return
    sizes = [sum(of_files[number].read_bytes for of_files in groups) for number in range(len(rows))]
    for cut in _cuts(sizes, map_task_bytes):
        yield tuple(_part(file, found, cut) for file, found in zip(files, groups, strict=True))


def _cuts(sizes: Sequence[int], most_bytes: int) -> Iterator[slice]:
    """Runs of row groups of about ``most_bytes`` each."""
    ends = [*accumulate(sizes)]
    pieces = max(1, min(len(sizes), round(ends[-1] / most_bytes)))
    # A row group belongs to the piece that holds its middle:
    #   bytes    10 10 10 10    2 pieces of 20    middles 5 15 | 25 35
    places = [int((end - size / 2) * pieces / max(1, ends[-1])) for size, end in zip(sizes, ends, strict=True)]
    for _, run in groupby(range(len(sizes)), key=places.__getitem__):
        numbers = [*run]
        yield slice(numbers[0], numbers[-1] + 1)


def _part(file: ScanTask, groups: Sequence[DataFile], cut: slice) -> ScanTask:
    if cut == slice(0, len(groups)):
        return file
    first, *others = groups[cut]
    return replace(file, data_file=first.joined(*others))


def map_task_document(map_id: int, tasks: Sequence[ScanTask], delete_files: Mapping[int, DeleteFile]) -> MapTask:
    """The document of a map task."""
    # Data files with equal terms mostly share one tuple.
    terms_of = {id(task.terms): task.terms for task in tasks}
    named = _NO_DELETES.union(*(term.delete_files for terms in terms_of.values() for term in terms))
    places = {number: place for place, number in enumerate(named)}
    written = {key: _written(terms, places) for key, terms in terms_of.items()}
    distinct = {terms: place for place, terms in enumerate(dict.fromkeys(written.values()))}
    return MapTask(
        map_id=map_id,
        files=tuple(FileWork(data_file=task.data_file, terms=distinct[written[id(task.terms)]]) for task in tasks),
        delete_files=tuple(delete_files[number] for number in named),
        terms=tuple(distinct),
    )


def _written(terms: Sequence[Term], places: Mapping[int, int]) -> FileTerms:
    # A file that stays, while the delete files d and then e come to apply to it. States are numbered as they are met,
    # and only differences are written: a set that grows in each of n steps would take n * n / 2 numbers.
    #   step 0   -1 in state 0, +1 in state 1      1: adds d
    #   step 1   -1 in state 1, +1 in state 2      2: adds e
    states: dict[FrozenBitMap, int] = {_NO_DELETES: 0}
    numbered = [(term.change_ordinal, term.weight, states.setdefault(term.delete_files, len(states))) for term in terms]
    return FileTerms(
        terms=tuple(numbered),
        delete_states=tuple(
            DeleteState(added=_places(after - before, places), dropped=_places(before - after, places))
            for before, after in pairwise(states)
        ),
    )


def _places(numbers: FrozenBitMap, places: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(places[number] for number in numbers)
