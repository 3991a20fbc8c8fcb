"""The delete files that reach each data file."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final

from pyiceberg.types import DoubleType, FloatType, PrimitiveType
from pyroaring import BitMap, FrozenBitMap

from icefloe.iceberg.data_file import DeleteFile, FileContent
from icefloe.iceberg.manifests.manifest_reader import DELETED_FILE_PATH, DataEntry, DeleteEntry, Partition
from icefloe.iceberg.manifests.manifest_values import ColumnRange, KeyTypes, decoded_bound


def known_range(entry: DataEntry | DeleteEntry, field_id: int, field_type: PrimitiveType | None) -> ColumnRange:
    """The range of a column by the bounds and null counts of a file's entry; without a type nothing is known."""
    if field_type is None:
        return ColumnRange()
    # A column without a count may hold nulls, or be missing in the file.
    nulls = entry.null_value_counts.get(field_id)
    return ColumnRange(
        lower=decoded_bound(field_type, entry.lower_bounds.get(field_id)),
        upper=decoded_bound(field_type, entry.upper_bounds.get(field_id)),
        may_hold_nulls=nulls != 0,
        may_hold_values=nulls is None or nulls < entry.file.record_count,
    )


def key_ranges(entry: DataEntry | DeleteEntry, field_ids: Sequence[int], types: KeyTypes) -> tuple[ColumnRange, ...]:
    """The known ranges of a file's key columns."""
    kinds = [(field_id, types.get(field_id)) for field_id in field_ids]
    # Bounds of floats leave NaN out, which equals NaN.
    return tuple(
        ColumnRange() if isinstance(kind, DoubleType | FloatType) else known_range(entry, field_id, kind)
        for field_id, kind in kinds
    )


def may_share_key(data: Iterable[ColumnRange], deletes: Iterable[ColumnRange]) -> bool:
    """True if some row may have a deleted key, by the ranges of the key's columns.

    >>> small, large = ColumnRange(lower=1, upper=4), ColumnRange(lower=5, upper=9, may_hold_nulls=False)
    >>> may_share_key([small], [large]), may_share_key([small], [small]), may_share_key([small], [ColumnRange()])
    (False, True, True)
    """
    # A key is shared only if every column of it can be: (1 to 4, a to c) and (2 to 9, x to z) share none.
    # A loop takes half of the time of `all`, and a hundred delete files of keys may meet thousands of data files here.
    for one, other in zip(data, deletes, strict=True):  # noqa: SIM110
        if not may_meet(one, other):
            return False
    return True


def may_meet(one: ColumnRange, other: ColumnRange) -> bool:
    """True if two columns may hold an equal value, null included."""
    if one.may_hold_nulls and other.may_hold_nulls:
        return True
    return one.may_hold_values and other.may_hold_values and not (_is_below(one, other) or _is_below(other, one))


def _is_below(one: ColumnRange, other: ColumnRange) -> bool:
    return one.upper is not None and other.lower is not None and bool(one.upper < other.lower)


DeleteNumbers = FrozenBitMap
"""Some of the delete files of a batch, by their numbers."""
NO_DELETES: Final = FrozenBitMap()


class DeleteFileIndex:
    """The delete files of all compared states, found by data file; threads may ask at once."""

    def __init__(self, entries: Sequence[DeleteEntry], key_types: KeyTypes) -> None:
        # A delete file reaches a data file in every state or none, so each pair is checked once.
        self._key_types = key_types
        self._entries = entries
        self._global: list[int] = []
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._by_partition: dict[Partition, list[int]] = defaultdict(list)
        self._vectors = BitMap()
        self._position_delete_files = BitMap()
        self._deleted_keys: dict[int, Sequence[ColumnRange]] = {}
        self._shared: dict[DeleteNumbers, DeleteNumbers] = {}
        for number, entry in enumerate(entries):
            self._add(number, entry)

    def __getitem__(self, number: int) -> DeleteFile:
        return self._entries[number].file

    def entries(self, numbers: DeleteNumbers) -> Iterator[DeleteEntry]:
        """In the order of their numbers."""
        return (self._entries[number] for number in numbers)

    def reach(self, data: DataEntry) -> DeleteNumbers:
        """The delete files that can remove its rows, in any state."""
        if not self._entries:
            return NO_DELETES
        named = self._by_name.get(data.file.path, ())
        held: dict[tuple[int, ...], Sequence[ColumnRange]] = {}
        candidates = chain(self._global, named, self._by_partition.get(data.partition, ()))
        found = FrozenBitMap([number for number in candidates if self._can_remove_rows(number, data, held)])
        return self._shared.setdefault(found, found) if found else NO_DELETES

    def in_force_at(self, *states: DeleteNumbers) -> Callable[[DeleteNumbers], Sequence[DeleteNumbers]]:
        """Looks up, by reach, the delete files in force at each state, in order."""

        # Of delete files 0 to 3, say 0, 2 and 3 can remove rows of file a, by partition, path, sequence number and
        # keys:
        #   state   live delete files   in force on a
        #   5       0 1                 0
        #   6       0 1 2 3             0 2 3
        # A delete file of keys may reach thousands of data files: what is found for one of them holds for all.
        @cache
        def found_for(reach: DeleteNumbers) -> Sequence[DeleteNumbers]:
            return tuple(self._in_force(reach, state) for state in states)

        return found_for

    def _in_force(self, reach: DeleteNumbers, state: DeleteNumbers) -> DeleteNumbers:
        found = reach & state
        if not found:
            return NO_DELETES
        # A deletion vector in force replaces position delete files: a writer merges them into it.
        if found.intersect(self._vectors):
            found -= self._position_delete_files
        return self._shared.setdefault(found, found)

    def _add(self, number: int, entry: DeleteEntry) -> None:
        if entry.file.is_deletion_vector:
            self._vectors.add(number)
        elif entry.file.content is FileContent.POSITION_DELETES:
            self._position_delete_files.add(number)
        if entry.file.content is FileContent.EQUALITY_DELETES and entry.is_unpartitioned:
            self._global.append(number)
            return
        if entry.only_data_file is not None:
            self._by_name[entry.only_data_file].append(number)
        if entry.may_name_others:
            self._by_partition[entry.partition].append(number)

    def _can_remove_rows(
        self, number: int, data: DataEntry, held: dict[tuple[int, ...], Sequence[ColumnRange]]
    ) -> bool:
        """``held`` keeps key ranges by field ids."""
        entry = self._entries[number]
        if not _can_apply(entry, data):
            return False
        if entry.file.content is not FileContent.EQUALITY_DELETES:
            return True
        field_ids = entry.file.equality_field_ids
        deleted = self._deleted_keys.get(number)
        if deleted is None:
            deleted = self._deleted_keys[number] = key_ranges(entry, field_ids, self._key_types)
        if field_ids not in held:
            held[field_ids] = key_ranges(data, field_ids, self._key_types)
        return may_share_key(held[field_ids], deleted)


def _can_apply(entry: DeleteEntry, data: DataEntry) -> bool:
    """True if the spec lets it remove rows."""
    deletes, data_file = entry.file, data.file
    # Equality deletes leave files of their own commit alone: an upsert deletes the old row of a key and adds the new
    # one in one commit. Position deletes may name files of their own commit, as a writer that changes its mind about a
    # row does.
    if deletes.content is FileContent.EQUALITY_DELETES:
        is_in_scope = entry.is_unpartitioned or entry.partition == data.partition
        return is_in_scope and data_file.sequence_number < deletes.sequence_number
    if data_file.sequence_number > deletes.sequence_number:
        return False
    # A name decides alone, as in Iceberg's Java library: writers may put its file under another partition or spec.
    if entry.only_data_file == data_file.path:
        return True
    is_in_scope = deletes.referenced_data_file is None and entry.partition == data.partition
    return is_in_scope and _may_name(entry, data_file.path.encode())


def _may_name(entry: DeleteEntry, path: bytes) -> bool:
    lower, upper = entry.lower_bounds.get(DELETED_FILE_PATH), entry.upper_bounds.get(DELETED_FILE_PATH)
    if lower is not None and path < lower:
        return False
    # An upper bound may be cut: then it is the prefix's successor, still not below any path it bounds. A writer that
    # does not round up leaves the prefix itself.
    return upper is None or path <= upper or path.startswith(upper)
