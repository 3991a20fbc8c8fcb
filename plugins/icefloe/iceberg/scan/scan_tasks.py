"""Scan tasks: each data file of a batch once, with the weights of its rows.

A file is read again with other constants, as in another partition, or with other row ids. Rows are paired by the row
ids of the step's own manifests, so a step delivers the same changes in whatever batch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

import pyarrow as pa
from pyiceberg.types import PrimitiveType

from icefloe.iceberg.catalog.confined_io import refuse_elsewhere
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.deletes.equality_deletes import equality_schema
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_reader import DataEntry, Partition
from icefloe.iceberg.manifests.manifest_values import comparable_bounds, may_match_ranges, partition_range
from icefloe.iceberg.scan.changed_files import DeleteTargets, FileTerm, StepTerms
from icefloe.iceberg.scan.changed_partitions import partitions_table
from icefloe.iceberg.scan.compared_states import DataManifests, ListedStates, LiveDeletes
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers, known_range
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import Step

__all__ = ["ScanPlan", "ScanTask", "Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """The weight, never 0, of the rows in one step that are live with some delete files."""

    change_ordinal: int
    weight: int
    delete_files: DeleteNumbers = NO_DELETES


FirstRowIds = Mapping[str, int]
"""The first row id of each data file of a step by its identity; empty if a file of the step has none."""


def row_ids_of_step(terms: Sequence[FileTerm]) -> FirstRowIds | None:
    """The row ids of a step that both adds and removes files; None of others. ``terms`` has unread files, too."""
    if len({term.weight > 0 for term in terms}) < 2:
        return None
    found: dict[str, int] = {}
    for term in terms:
        file = term.entry.file
        if file.first_row_id is not None:
            found.setdefault(file.identity, file.first_row_id)
    # All or none: a removed row with a row id would find no partner among added rows without one.
    return found if all(term.entry.file.identity in found for term in terms) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """One data file to read, and the weights of its rows.

    Attributes:
        terms: by ordinal, at least one; tasks with equal terms share one tuple.
        partition: spec id and values: files of one partition probably hold the same rows.
    """

    data_file: DataFile
    terms: tuple[Term, ...]
    partition: Partition
    lower_bounds: Mapping[int, bytes] = field(repr=False, default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(repr=False, default_factory=dict)

    def bounds(self, schema: TableSchema) -> Mapping[int, tuple[object, object]]:
        """(lower, upper) by field id, of columns whose bounds compare."""
        return comparable_bounds(self.lower_bounds, self.upper_bounds, schema.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files that a batch reads.

    Attributes:
        tasks: in the order in which steps and manifests name the files.
    """

    tasks: tuple[ScanTask, ...]
    delete_files: Mapping[int, DeleteFile] = field(default_factory=dict)
    manifests_read: int = 0

    @classmethod
    def of(
        cls, table: LoadedTable, steps: Sequence[Step], *, row_filter: RowFilter | None = None, by_row_id: bool = False
    ) -> Self:
        """The data files with the changes of ``steps``; reads manifests only.

        Args:
            row_filter: files without a row that passes are not read; None: all rows count.
        """
        read_before = table.manifests.manifests_read
        deletes = LiveDeletes.read(steps, ListedStates.of(steps, table), table.manifests)
        data = DataManifests(table.manifests, deletes)
        row_ids: dict[int, FirstRowIds] = {}

        def wanted() -> Iterator[tuple[int, StepTerms]]:
            # Step by step: a hundred delete files that each reach all of 10,000 data files make two million terms.
            for step in steps:
                terms = data.terms(step)
                if by_row_id and (of_step := row_ids_of_step(list(terms.each()))) is not None:
                    row_ids[step.change_ordinal] = of_step
                yield step.change_ordinal, terms

        tasks = scan_tasks(wanted(), row_ids, may_match=None if row_filter is None else file_condition(row_filter))
        named = NO_DELETES.union(*{term.delete_files for terms in _distinct(tasks) for term in terms})
        delete_files = {number: deletes.index[number] for number in named}
        refuse_elsewhere(table.io, [*(t.data_file.path for t in tasks), *(each.path for each in delete_files.values())])
        return cls(
            tasks=tasks,
            delete_files=delete_files,
            manifests_read=table.manifests.manifests_read - read_before,
        )

    def equality_schemas(
        self, table: LoadedTable, snapshot_ids: Sequence[int | None]
    ) -> dict[tuple[int, ...], TableSchema]:
        """The schemas of the keys of its equality delete files, by their field ids."""
        field_ids = {delete_file.equality_field_ids for delete_file in self.delete_files.values()} - {()}
        return {ids: equality_schema(table.metadata, ids, snapshot_ids) for ids in sorted(field_ids)}

    def changed_partitions(self, table: LoadedTable) -> pa.Table:
        """The partitions of its data files; rows of others do not change. See `read_changed_partitions`."""
        return partitions_table(
            dict.fromkeys(task.partition for task in self.tasks),
            table.metadata.specs(),
            table.manifests.partition_types,
        )

    @property
    def inserts_only(self) -> bool:
        """True if no step removes a row: none can cancel, so none need be shuffled together."""
        return all(term.weight > 0 for terms in _distinct(self.tasks) for term in terms)

    @property
    def ordinals_with_deletes(self) -> frozenset[int]:
        """The steps whose record counts are not exact, because of delete files."""
        return frozenset(term.change_ordinal for terms in _distinct(self.tasks) for term in terms if term.delete_files)

    @property
    def file_size_bytes(self) -> int:
        """Bytes of data files as often as they are read, and of each delete file once."""
        deletes = sum(delete_file.size_bytes for delete_file in self.delete_files.values())
        return sum(task.data_file.file_size_bytes for task in self.tasks) + deletes

    def sizes(self) -> Iterator[int]:
        """Bytes of each data file and the delete files that no earlier data file needs."""
        seen: set[int] = set()
        met: set[int] = set()
        for task in self.tasks:
            terms = () if id(task.terms) in met else task.terms
            met.add(id(task.terms))
            new = {number for term in terms for number in term.delete_files} - seen
            seen |= new
            yield task.data_file.file_size_bytes + sum(self.delete_files[number].size_bytes for number in new)

    @property
    def record_count(self) -> int:
        """Rows of data files as often as they are read, before any delete."""
        return sum(task.data_file.record_count for task in self.tasks)


def _distinct(tasks: Iterable[ScanTask]) -> Iterable[tuple[Term, ...]]:
    return {id(task.terms): task.terms for task in tasks}.values()


def file_condition(row_filter: RowFilter) -> Callable[[DataEntry], bool]:
    """False only of files without a row that passes, by identity partitions, bounds and null counts."""
    # Missing values, or values of a type that does not compare, rule out nothing.
    types = {f.field_id: f.field_type for f in row_filter.fields if isinstance(f.field_type, PrimitiveType)}

    def may_match(entry: DataEntry) -> bool:
        file, ranges = entry.file, {}
        for field_id, kind in types.items():
            if str(field_id) in file.constants:
                ranges[field_id] = partition_range(kind, file.constants[str(field_id)])
                continue
            known = known_range(entry, field_id, kind)
            # Writers may or may not count the nulls of a struct as nulls of the fields nested in it.
            is_nested = len(row_filter.paths[field_id]) > 1
            ranges[field_id] = replace(known, may_hold_nulls=True) if is_nested else known
        return may_match_ranges(row_filter.expression, ranges)

    return may_match


def scan_tasks(
    terms_by_ordinal: Iterable[tuple[int, StepTerms]],
    # By step; any will do for other steps. Looked at after the last term, so it may be filled meanwhile.
    row_ids: Mapping[int, FirstRowIds],
    *,
    may_match: Callable[[DataEntry], bool] | None = None,
) -> tuple[ScanTask, ...]:
    """The tasks that read every changed file that may match, once for its constants and row ids."""
    entries: dict[str, DataEntry] = {}
    terms_of: dict[str, list[Term]] = {}
    # Thousands of data files may have equal terms: they share them.
    shared_term = cache(Term)

    def of_file(entry: DataEntry) -> list[Term] | None:
        if may_match is not None and not may_match(entry):
            return None
        identity = entry.file.identity
        known = entries.get(identity)
        # In the manifests of snapshots from before row lineage the same file has no row ids; any later entry has.
        if known is None or known.file.first_row_id is None:
            entries[identity] = entry
        return terms_of.setdefault(identity, [])

    # A hundred steps may change the delete files of the same thousands of files.
    @cache
    def of_targets(targets: DeleteTargets) -> Sequence[list[Term] | None]:
        return [*map(of_file, targets.entries)]

    for ordinal, of_step in terms_by_ordinal:
        for entry, weight, delete_files in of_step.single:
            if (found := of_file(entry)) is not None:
                found.append(shared_term(ordinal, weight, delete_files))
        for targets, changes in of_step.kept:
            if not changes:
                continue
            pairs = {
                reach: (shared_term(ordinal, -1, earlier), shared_term(ordinal, 1, later))
                for reach, (earlier, later) in changes.items()
            }
            for reach, found in zip(targets.reaches, of_targets(targets), strict=True):
                if found is not None and reach in pairs:
                    found.extend(pairs[reach])
    alike: dict[tuple[int, ...], tuple[Term, ...]] = {}
    return tuple(
        ScanTask(
            data_file=_with_row_ids(entry.file, first_row_id),
            terms=alike.setdefault(tuple(map(id, of_id)), tuple(of_id)),
            partition=entry.partition,
            lower_bounds=entry.lower_bounds,
            upper_bounds=entry.upper_bounds,
        )
        for identity, entry in entries.items()
        if terms_of[identity]
        for first_row_id, of_id in _by_first_row_id(entry.file, terms_of[identity], row_ids)
    )


def _with_row_ids(file: DataFile, first_row_id: int | None) -> DataFile:
    return file if file.first_row_id == first_row_id else replace(file, first_row_id=first_row_id)


def _by_first_row_id(
    file: DataFile, terms: Sequence[Term], row_ids: Mapping[int, FirstRowIds]
) -> Iterable[tuple[int | None, Sequence[Term]]]:
    """Terms without a choice are added to the first."""
    if not row_ids:
        return [(file.first_row_id, terms)]
    own = {
        term.change_ordinal: row_ids[term.change_ordinal].get(file.identity)
        for term in terms
        if term.change_ordinal in row_ids
    }
    first = next(iter(own.values()), file.first_row_id)
    by_row_id: dict[int | None, list[Term]] = {}
    for term in terms:
        by_row_id.setdefault(own.get(term.change_ordinal, first), []).append(term)
    return by_row_id.items()
