"""Equality delete files: each of their keys deletes every row that has it."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType
from pyroaring import BitMap64

from icefloe.changes.hash_index import HashIndex, HashSlice, distinct_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import is_local
from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.column_paths import optional_fields
from icefloe.iceberg.schemas.table_schema import TableSchema, covering_schema, schemas_before
from icefloe.storage.requests import map_parallel

__all__ = ["equality_schema"]


def equality_schema(
    metadata: TableMetadata, field_ids: Collection[int], snapshot_ids: Sequence[int | None]
) -> TableSchema:
    """The schema in which keys of equality deletes and of data files are compared.

    Each field comes from the newest schema that led to one of the states, in its widest type there; a replaced table
    may give its field id another type. A field dropped before a commit knew it comes from the newest other schema.
    Nested fields stay in their structs. All fields are optional: a key that a file lacks is null.

    Source: https://iceberg.apache.org/spec/#equality-delete-files
    """
    fields: list[NestedField] = []
    missing = set(field_ids)
    before = schemas_before(metadata, snapshot_ids)
    others = [schema for schema in metadata.schemas if schema not in before]
    for schema in (*(covering_schema(each, before) for each in _newest_first(before)), *_newest_first(others)):
        fields = _merged(fields, schema.fields, missing)
        missing -= index_by_id(StructType(*fields)).keys()
    if missing:
        raise TerminalError(
            f"equality delete files of the table at {metadata.location} name field {min(missing)}, which no schema of "
            "the table has outside of lists and maps: the metadata is damaged"
        )
    return TableSchema.of(Schema(*optional_fields(_named_apart(fields, set()))), metadata.name_mapping())


def _newest_first(schemas: Iterable[Schema]) -> list[Schema]:
    return sorted(schemas, key=lambda schema: schema.schema_id, reverse=True)


def _merged(fields: Iterable[NestedField], others: Iterable[NestedField], wanted: Collection[int]) -> list[NestedField]:
    """The fields, and those of the others that are wanted, nested ones in their structs."""
    merged = {field.field_id: field for field in fields}
    for other in others:
        known = merged.get(other.field_id)
        inner = _merged(_children(known) if known else (), _children(other), wanted)
        if other.field_id in wanted:
            merged[other.field_id] = other
        elif inner:
            merged[other.field_id] = (known or other).model_copy(update={"field_type": StructType(*inner)})
    return list(merged.values())


def _named_apart(fields: Iterable[NestedField], taken: set[str], path: str = "") -> list[NestedField]:
    """The fields; an older one has its id in its name if a newer one took its name. Keys are compared by field ids."""
    found = []
    for field in fields:
        name = f"{field.name} (field {field.field_id})" if f"{path}{field.name}" in taken else field.name
        taken.add(f"{path}{name}")
        inner = _named_apart(_children(field), taken, f"{path}{name}.")
        kind = StructType(*inner) if isinstance(field.field_type, StructType) else field.field_type
        found.append(field.model_copy(update={"name": name, "field_type": kind}))
    return found


def _children(field: NestedField) -> Sequence[NestedField]:
    return field.field_type.fields if isinstance(field.field_type, StructType) else ()


Item = TypeVar("Item")

_BYTES_PER_KEY: Final = 32
_PARALLEL_READS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyGroup:
    """Delete files of one field-id set whose keys are in memory together, or a slice of one."""

    field_ids: tuple[int, ...]
    delete_ids: tuple[int, ...]
    hash_slice: HashSlice


class EqualityDeletes:
    """The positions that equality delete files delete from data files."""

    def __init__(
        self,
        delete_files: Mapping[int, DeleteFile],  # of other kinds, too, which it leaves aside
        *,
        schemas: Mapping[tuple[int, ...], TableSchema],
        reader: FileReader,
        memory_bytes: int,  # of kept keys; delete files that do not fit are read again for each data file
    ) -> None:
        # Source: https://iceberg.apache.org/spec/#equality-delete-files
        self._delete_files = delete_files
        self._schemas = schemas
        self._reader = reader
        self._memory_bytes = memory_bytes
        self._hash_key = RowHashes.new_key()
        self._groups = list(_key_groups(delete_files, max(1, memory_bytes // _BYTES_PER_KEY)))
        self._kept: OrderedDict[_KeyGroup, HashIndex] = OrderedDict()

    def of(self, data_file: DataFile, delete_ids: Collection[int]) -> dict[int, BitMap64]:
        """Positions by delete file, without those that delete none; the caller checks that a delete file applies."""
        asked = frozenset(delete_ids)
        found: dict[int, BitMap64] = {}
        groups = [group for group in self._groups if not asked.isdisjoint(group.delete_ids)] if asked else []
        # Groups in memory first, before reading others drives them out.
        for group in sorted(groups, key=lambda group: group not in self._kept):
            index = self._index(group)
            for first, hashes in self._key_hashes(data_file, group.field_ids):
                # A group holds delete files that are not in force on this data file, too: their matches are dropped one
                # call below.
                for rows, numbers in index.matches(hashes):
                    for number, positions in positions_by(numbers, rows + first):
                        if number in asked:
                            found.setdefault(number, BitMap64()).update(positions)
        return found

    def _index(self, group: _KeyGroup) -> HashIndex:
        if group not in self._kept:
            needed = _BYTES_PER_KEY * sum(self._delete_files[number].record_count for number in group.delete_ids)
            while self._kept and needed + sum(index.nbytes for index in self._kept.values()) > self._memory_bytes:
                self._kept.popitem(last=False)
            self._kept[group] = self._read(group)
        self._kept.move_to_end(group)
        return self._kept[group]

    def _read(self, group: _KeyGroup) -> HashIndex:
        def keys(delete_id: int) -> RowHashes:
            batches = self._key_hashes(self._delete_files[delete_id], group.field_ids)
            kept = [hashes.take(group.hash_slice.positions(hashes)) for _, hashes in batches]
            return distinct_hashes(RowHashes.concat(kept))

        readers = 1 if is_local(self._delete_files[group.delete_ids[0]].path) else _PARALLEL_READS
        hashes = map_parallel(keys, group.delete_ids, at_once=readers)
        numbers = np.repeat(np.array(group.delete_ids, np.int32), [len(each) for each in hashes])
        return HashIndex.of(RowHashes.concat(hashes), numbers)

    def _key_hashes(self, file: DataFile | DeleteFile, field_ids: tuple[int, ...]) -> Iterator[tuple[int, RowHashes]]:
        """(position of the first row, hashes of keys)."""
        for first, batch in self._reader.rows(file, self._schemas[field_ids], dictionary_columns=True):
            yield first, key_hashes(batch, self._hash_key)


def _key_groups(delete_files: Mapping[int, DeleteFile], max_keys: int) -> Iterator[_KeyGroup]:
    """Neighbours of one field-id set, with at most ``max_keys`` each."""
    # Files of 4, 5, 3 and 25 keys with room for 10:  [4 5] [3] and four quarters of 25, each read for itself.
    by_field_ids: dict[tuple[int, ...], list[int]] = {}
    for number, delete_file in delete_files.items():
        if delete_file.content is FileContent.EQUALITY_DELETES:
            by_field_ids.setdefault(delete_file.equality_field_ids, []).append(number)
    for field_ids, numbers in by_field_ids.items():
        counts = [delete_files[number].record_count for number in numbers]
        for members in runs_of_at_most(max_keys, numbers, counts):
            keys = sum(delete_files[number].record_count for number in members)
            for each in HashSlice.slices(-(-keys // max_keys)):
                yield _KeyGroup(field_ids=field_ids, delete_ids=tuple(members), hash_slice=each)


def runs_of_at_most(limit: int, items: Sequence[Item], counts: Sequence[int]) -> Iterator[list[Item]]:
    """Neighbours whose counts add up to at most the limit, or one item with more."""
    run: list[Item] = []
    total = 0
    for item, count in zip(items, counts, strict=True):
        if run and total + count > limit:
            yield run
            run, total = [], 0
        run.append(item)
        total += count
    if run:
        yield run


def positions_by(numbers: NDArray[np.int32], positions: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The positions of each number."""
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        numbers, positions = numbers[order], positions[order]
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(starts):
        if stop > start:
            yield int(numbers[start]), positions[start:stop]


def key_hashes(keys: pa.RecordBatch, hash_key: int) -> RowHashes:
    """The hash of each key, equal if Iceberg's Java reader calls the keys equal.

    Null equals null and NaN equals NaN. Unlike in compared rows, 0.0 is not -0.0: Java compares by bits. A null struct
    is not a struct of nulls.

    >>> hashes = key_hashes(pa.record_batch({"key": [0.0, -0.0, 0.0, None, None]}), 7)
    >>> hashes[0] == hashes[2], hashes[0] == hashes[1], hashes[3] == hashes[4]
    (True, False, True)
    """
    return RowHashes.of([_by_bits(column) for column in keys.columns], key=hash_key)


def _by_bits(array: Any) -> Any:
    """Floats as integers with the same bits, all NaNs as one."""
    if pa.types.is_struct(array.type):
        children = [_by_bits(array.field(index)) for index in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if not pa.types.is_floating(array.type):
        return array
    nan = pa.scalar(float("nan"), array.type)
    bits = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pc.if_else(pc.is_nan(array), nan, array).view(bits)
